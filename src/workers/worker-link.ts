import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { coalesced } from '../domain/promises.ts';
import type { Addresses } from '../telemetry/events.ts';
import { type MetricsSnapshot, renderMetrics } from '../telemetry/metrics.ts';

/** The messages of a worker to its primary, which may be of another release, and then ignores unknown ones. */
export type ToPrimary =
  | { readonly ready: Addresses }
  | { readonly metrics: MetricsSnapshot }
  | { readonly question: Question };
/** Asks for the metrics of all workers, or for an answer after the primary has accepted some connections. */
type Question = 'gather' | 'turn';
/** The messages of the primary to a worker. `report` requests the worker's own metrics. The objects are answers. */
type ToWorker = 'stop' | 'report' | { readonly turn: boolean } | { readonly gathered: MetricsSnapshot };

export type WorkerLink = NonNullable<ReturnType<typeof workerLink>>;

// Longer than two rounds of the primary: a scrape first waits for the end of a running round.
const answerTimeoutMs = 2_000;
/** The workers that get connections, or will get them: `node:cluster` counts them from their request for a port. */
const accepting = new Set<Worker>();

export function forkWorker(): Worker {
  const worker = cluster.fork();
  releaseConnections(worker);
  return worker;
}

/**
 * Closes the connections that no worker accepts: those that a worker has not acknowledged when it dies, each for which
 * it has no file descriptor, and each that the last worker returns. Node.js closes none: it keeps its own copy of a
 * connection until a worker accepts it, so the client would wait forever. Also emits `disconnect` for a dead worker,
 * which Node.js may omit.
 */
function releaseConnections(worker: Worker): void {
  const { process: child } = worker;
  const { send } = child;
  const passed = new Map<unknown, { close(): void }>();
  Object.assign(child, {
    send(...given: [message: { act?: string; seq: number }, handle: { close(): void }]): unknown {
      const [{ act, seq }, handle] = given;
      if (act === 'newconn') passed.set(seq, handle);
      return Reflect.apply(send, child, given);
    },
  });
  child.on('internalMessage', ({ cmd, act, ack, accepted }: Record<string, unknown>) => {
    if (act === 'queryServer') accepting.add(worker);
    if (act === 'close') accepting.delete(worker);
    if (accepted === false && accepting.size === 0) passed.get(ack)?.close();
    passed.delete(ack);
    // The worker had no file descriptor for the oldest. When `node:cluster` takes it for accepted, it closes its copy
    // and passes further connections.
    const [oldest] = passed.keys();
    if (cmd === 'NODE_HANDLE_NACK')
      child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: oldest, accepted: true });
  });
  worker.once('exit', async () => {
    accepting.delete(worker);
    // The last messages may arrive after the exit.
    while (child.connected) await setImmediate();
    for (const handle of passed.values()) handle.close();
    // `node:cluster` ignores a second event.
    child.emit('disconnect');
  });
}

export function sendTo(worker: Worker, message: ToWorker): void {
  // Without the function, a failed send would emit `error`, which ends the wait of a scrape for this worker.
  if (worker.isConnected()) worker.send(message, () => undefined);
}

/** The link to the primary; `undefined` in a process that is not a worker. */
export function workerLink() {
  const { worker } = cluster;
  if (worker === undefined) return undefined;
  // After the death of the primary, a message fails, also one of `node:cluster`. Then its `disconnect` ends this process.
  worker.on('error', () => undefined);
  const send = (message: ToPrimary): unknown => worker.send(message);
  let report = (): unknown => undefined;
  /** Returns a function that asks the primary, and resolves to its answer, for which `serve` emits an event. */
  const asking = (question: Question) =>
    coalesced(async () => {
      send({ question });
      const signal = AbortSignal.timeout(answerTimeoutMs);
      const [answer] = await once(worker, question, { signal }).catch((cause) => {
        throw new Error('the primary does not answer', { cause });
      });
      return answer;
    });
  const [gather, turn] = [asking('gather'), asking('turn')];
  return {
    /** The metrics of all workers together. */
    renderMetrics: async (): Promise<string> => renderMetrics(await gather()),
    /** Resolves when the primary has had time to pass a connection to this worker; to false if others take it. */
    turn: () => turn().catch(() => undefined),
    /** Calls `stop` when the primary requests it, and `metrics` when the primary requests a report. */
    serve(stop: () => void, metrics: () => MetricsSnapshot): void {
      report = () => send({ metrics: metrics() });
      worker.on('message', (message: ToWorker) => {
        if (message === 'stop') stop();
        else if (message === 'report') report();
        else if ('turn' in message) worker.emit('turn', message.turn);
        else worker.emit('gather', message.gathered);
      });
    },
    ready: (addresses: Addresses): unknown => send({ ready: addresses }),
    /** Disconnects from the primary, so that the process can end. Until then, it returns connections that it gets. */
    async close(): Promise<void> {
      // Counts since the last report would be lost with the process.
      report();
      worker.disconnect();
      // Not `once`, which would fail if the primary is dead, so that the last messages fail.
      await new Promise((resolve) => worker.once('disconnect', resolve));
    },
  };
}
