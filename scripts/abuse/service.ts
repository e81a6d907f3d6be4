import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fail } from '../harness/fail.ts';
import { probe, shownProbes, startServer } from '../harness/offer.ts';
import { post } from '../harness/post.ts';
import type { ProbeReport } from '../harness/probe.ts';
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

const smallHeapMegabytes = 96;
export const attackSeconds = 9;

/** Starts a service on a core of its own, with one user and a file of 10 MB. */
export async function startVictim(hasSmallHeap = false, grpcPort: number | 'off' = 'off'): Promise<Victim> {
  const folder = await mkdtemp(join(tmpdir(), 'abuse-'));
  const publicDir = join(folder, 'public');
  await mkdir(publicDir);
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(10_000_000, 'x'));
  const options = ['--database', `sqlite:${join(folder, 'users.db')}`, '--public', publicDir];
  const heap = hasSmallHeap ? ['env', `NODE_OPTIONS=--max-old-space-size=${smallHeapMegabytes}`] : [];
  const server = await startServer(options, heap, grpcPort);
  const { port, pid, isAlive } = server;
  const url = `http://127.0.0.1:${port}`;
  await post(`${url}/users`, { name: 'Ada' });
  const unlessGone = (figure: () => number): number => {
    try {
      return figure();
    } catch {
      return Number.NaN;
    }
  };
  return {
    url,
    port,
    isAlive,
    cpuSeconds: () => unlessGone(() => cpuSecondsOf(pid)),
    peakMegabytes: () => unlessGone(() => Math.round(memoryOf(pid, 'VmHWM') / 2 ** 20)),
    async end() {
      await server.end('SIGKILL');
      await rm(folder, { recursive: true });
    },
  };
}

/** Fails if 1 % of the probes on the kept connection got no 200. At the limit of connections, it may be closed once. */
export function failIfUnanswered(what: string, { kept }: ProbeReport): void {
  if (kept.p99 === null) fail(`${what}: no 200 for ${kept.failed} probes on the kept connection`);
}

interface Connection {
  readonly destroyed: boolean;
  destroy(): void;
}

/** Runs an attack, which adds its connections to a list. Reports memory and probes, and ends the service. */
export async function* measureAttack<Opened extends Connection>(
  victim: Victim,
  what: string,
  prepare: () => Promise<void>,
  attack: (opened: Opened[]) => Promise<void>,
): AsyncGenerator<string> {
  const opened: Opened[] = [];
  try {
    await prepare();
    const before = victim.peakMegabytes();
    const probes = probe({ port: victim.port, seconds: attackSeconds });
    // The first connections are the worst moment: the probes must be under way.
    await sleep(1_000);
    await attack(opened);
    const report = await probes;
    const left = opened.filter(({ destroyed }) => !destroyed).length;
    yield `${what}: ${victim.isAlive() ? 'alive' : 'DEAD'}, ${before} -> ${victim.peakMegabytes()} MB at most`;
    yield `  ${shownProbes(report)}; ${left} connections left`;
    failIfUnanswered(what, report);
  } finally {
    for (const one of opened) one.destroy();
    await victim.end();
  }
}
