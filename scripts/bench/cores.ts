import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/** The cores on which a program may run: the one of the server, the one of the load, or all. */
export type Cores = 'server' | 'load' | 'all';

// The load generator uses another core than the server, so that it does not slow it down.
const sets: Readonly<Record<Cores, string>> = {
  server: '0',
  load: '1',
  all: `0-${availableParallelism() - 1}`,
};

const canPin = commandExists('taskset') && availableParallelism() > 1;

/** A command line that is pinned to its cores, if the machine allows it. */
export function pin(cores: Cores, command: string, args: readonly string[]) {
  if (!canPin) return { command, args: [...args] };
  return { command: 'taskset', args: ['-c', sets[cores], command, ...args] };
}

/** Pins this process to its cores. */
export function pinSelf(cores: Cores): void {
  if (canPin) spawnSync('taskset', ['-acp', sets[cores], String(process.pid)]);
}

export function commandExists(command: string, argument = '--version'): boolean {
  return spawnSync(command, [argument]).error === undefined;
}
