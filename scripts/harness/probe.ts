// Requests /health at a fixed rate, as an orchestrator or a load balancer does, on a kept connection and on
// new connections in turn. Runs in a separate process with priority on its core, so that it measures the
// service and not the load generator. Reads its `ProbeJob` from the first argument and prints its
// `ProbeReport`.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { head } from '../../test/kit/wire.ts';
import { percentile } from './statistics.ts';

export interface ProbeJob {
  readonly port: number;
  readonly seconds: number;
  /** The probes of the first seconds, while a load opens its connections, are reported as `opening`. Default: 0. */
  readonly openingSeconds?: number;
}

/** In milliseconds from the time at which a probe was due. Null means no response. */
export interface Delays {
  readonly p50: number | null;
  readonly p99: number | null;
  readonly max: number | null;
  /** Probes without a 200 within 10 s. */
  readonly failed: number;
}

export interface Probes {
  readonly kept: Delays;
  readonly fresh: Delays;
}

export interface ProbeReport extends Probes {
  readonly opening: Probes;
}

const job: ProbeJob = JSON.parse(process.argv[2] ?? '');
const everyMs = 20;
const patienceMs = 10_000;

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true }).on('error', () => undefined);
  await once(socket, 'connect', { signal: AbortSignal.timeout(patienceMs) });
  return socket;
}

async function ask(socket: Socket, ...headers: string[]): Promise<void> {
  socket.write(head('GET /health', ...headers));
  const [bytes]: Buffer[] = await once(socket, 'data', { signal: AbortSignal.timeout(patienceMs) });
  if (bytes?.toString('latin1').startsWith('HTTP/1.1 200') !== true) throw new Error('no 200');
}

/** Probes at fixed times until the end. A probe waits if the one before it is still running. */
async function probe(send: () => Promise<void>, atOnce: boolean): Promise<readonly number[]> {
  const delays: Promise<number>[] = [];
  const startedAt = performance.now();
  for (let i = 0; i * everyMs < job.seconds * 1_000; i += 1) {
    const dueAt = startedAt + i * everyMs;
    const wait = dueAt - performance.now();
    if (wait > 0) await sleep(wait);
    const from = Math.min(dueAt, performance.now());
    const delay = send().then(
      () => performance.now() - from,
      () => Number.POSITIVE_INFINITY,
    );
    delays.push(delay);
    if (!atOnce) await delay;
  }
  return await Promise.all(delays);
}

function summary(delays: readonly number[]): Delays {
  const at = (share: number) => Math.round(10 * percentile(delays, share)) / 10;
  const failed = delays.filter((delay) => delay === Number.POSITIVE_INFINITY).length;
  return { p50: at(0.5), p99: at(0.99), max: at(1), failed };
}

let kept: Socket | undefined;
const onKept = async (): Promise<void> => {
  kept ??= await open(job.port);
  try {
    await ask(kept);
  } catch (caught) {
    kept.destroy();
    kept = undefined;
    throw caught;
  }
};
const onNew = async (): Promise<void> => {
  const socket = await open(job.port);
  try {
    await ask(socket, 'Connection: close');
  } finally {
    socket.destroy();
  }
};
await onKept();
const [ofKept, ofNew] = await Promise.all([probe(onKept, false), probe(onNew, true)]);
const opening = Math.ceil(((job.openingSeconds ?? 0) * 1_000) / everyMs);
const summaries = (from: number, to?: number): Probes => ({
  kept: summary(ofKept.slice(from, to)),
  fresh: summary(ofNew.slice(from, to)),
});
console.log(JSON.stringify({ ...summaries(opening), opening: summaries(0, opening) } satisfies ProbeReport));
process.exit();
