import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/** Where a program may run: on the server's core, the load's core, or all there are. */
export type Cores = 'server' | 'load' | 'all';

// The load generator has a core of its own, so that it takes nothing from what it measures.
const sets: Readonly<Record<Cores, string>> = {
  server: '0',
  load: '1',
  all: `0-${availableParallelism() - 1}`,
};

const canPin = commandExists('taskset') && availableParallelism() > 1;

/** A command line kept to its cores, where the machine lets us choose. */
export function pin(cores: Cores, command: string, args: readonly string[]) {
  if (!canPin) return { command, args: [...args] };
  return { command: 'taskset', args: ['-c', sets[cores], command, ...args] };
}

/** Keeps this process to its cores. */
export function pinSelf(cores: Cores): void {
  if (canPin) spawnSync('taskset', ['-acp', sets[cores], String(process.pid)]);
}

export function commandExists(command: string, argument = '--version'): boolean {
  return spawnSync(command, [argument]).error === undefined;
}
