import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startProcess } from '../../test/kit/process.ts';
import { cpuSecondsOf } from '../harness/cpu.ts';

export interface Victim {
  readonly url: string;
  readonly port: number;
  /** Whether the process is still there. */
  readonly isAlive: () => boolean;
  /** Processor time it has taken so far, in seconds; NaN where there is no /proc. */
  readonly cpuSeconds: () => number;
  /** Memory it has at most had so far, in MB; NaN where there is no /proc. */
  readonly peakMegabytes: () => number;
  readonly end: () => Promise<void>;
}

/** Starts a service of its own process with one user and a file of 10 MB. */
export async function startVictim(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Victim> {
  const publicDir = await mkdtemp(join(tmpdir(), 'abuse-'));
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(10_000_000, 'x'));
  const ends: (() => unknown)[] = [() => rm(publicDir, { recursive: true })];
  const after = (end: () => unknown) => ends.unshift(end);
  const options = ['--database', 'memory:', '--public', publicDir, ...args];
  const { child, http } = await startProcess({ after }, options, env);
  await fetch(`${http}/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"name":"Ada"}',
  });
  return {
    url: http,
    port: Number(new URL(http).port),
    isAlive: () => child.exitCode === null && child.signalCode === null,
    cpuSeconds() {
      try {
        return cpuSecondsOf(child.pid);
      } catch {
        return Number.NaN;
      }
    },
    peakMegabytes() {
      try {
        const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
        return Math.round(Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]) / 1024);
      } catch {
        return Number.NaN;
      }
    },
    async end() {
      for (const end of ends) await end();
    },
  };
}
