import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServer } from '../harness/offer.ts';
import { post } from '../harness/post.ts';
import { cpuSecondsOf, memoryOf } from '../harness/proc.ts';

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

/** Starts a service on a core of its own, with one user and a file of 10 MB. */
export async function startVictim(
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  grpcPort: number | 'off' = 'off',
): Promise<Victim> {
  const folder = await mkdtemp(join(tmpdir(), 'abuse-'));
  const publicDir = join(folder, 'public');
  await mkdir(publicDir);
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(10_000_000, 'x'));
  const options = ['--database', `sqlite:${join(folder, 'users.db')}`, '--public', publicDir];
  const wrapper = ['env', ...Object.entries(env).map(([name, value]) => `${name}=${value}`)];
  const server = await startServer([...options, ...args], wrapper, grpcPort);
  const { port, pid, isAlive } = server;
  const url = `http://127.0.0.1:${port}`;
  await post(`${url}/users`, { name: 'Ada' });
  return {
    url,
    port,
    isAlive,
    cpuSeconds() {
      try {
        return cpuSecondsOf(pid);
      } catch {
        return Number.NaN;
      }
    },
    peakMegabytes() {
      try {
        return Math.round(memoryOf(pid, 'VmHWM') / 2 ** 20);
      } catch {
        return Number.NaN;
      }
    },
    async end() {
      await server.end('SIGKILL');
      await rm(folder, { recursive: true });
    },
  };
}
