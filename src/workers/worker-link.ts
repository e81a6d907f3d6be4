import cluster from 'node:cluster';
import type { Addresses } from '../service.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';

/** The environment variable that gives a worker its ports, HTTP's and gRPC's, in JSON. */
export const portsVariable = 'USERS_SERVICE_WORKER_PORTS';

/** What a worker sends to its primary. `gather` asks for the metrics of all workers. */
export type ToPrimary =
  | { readonly ready: Addresses }
  | { readonly metrics: MetricsSnapshot }
  | { readonly gather: number };
/** What the primary sends to a worker. `report` asks for the worker's own metrics. */
export type ToWorker = 'stop' | 'report' | { readonly gathered: MetricsSnapshot; readonly gather: number };

// Longer than the primary waits for the other workers.
const gatherTimeoutMs = 2_000;

/** A worker's connection to its primary. */
export interface WorkerLink {
  readonly port: number;
  readonly grpcPort: number | false;
  /** Reports that the worker is serving; `metrics` gives its own metrics from now on. */
  ready(addresses: Addresses, metrics: () => MetricsSnapshot): void;
  /** The metrics of all workers together. */
  gatherMetrics(): Promise<MetricsSnapshot>;
  onStop(handle: () => void): void;
  /** Disconnects from the primary, so that the process can end. */
  close(): void;
}

/** The link to the primary; `undefined` in a process that is not a worker. */
export function workerLink(env: Readonly<Record<string, string | undefined>>): WorkerLink | undefined {
  const { worker } = cluster;
  const ports = env[portsVariable];
  if (worker === undefined || ports === undefined) return undefined;
  const [port, grpcPort] = JSON.parse(ports);
  const send = (message: ToPrimary): unknown => worker.send(message, () => undefined);
  const waiting = new Map<number, (metrics: MetricsSnapshot) => void>();
  let gathers = 0;
  let report = (): void => undefined;
  let stop = (): void => undefined;
  worker.on('message', (message: ToWorker) => {
    if (message === 'report') report();
    else if (message === 'stop') stop();
    else waiting.get(message.gather)?.(message.gathered);
  });
  return {
    port,
    grpcPort,
    ready(addresses, metrics) {
      report = () => send({ metrics: metrics() });
      send({ ready: addresses });
    },
    async gatherMetrics() {
      const { promise, resolve, reject } = Promise.withResolvers<MetricsSnapshot>();
      gathers += 1;
      const gather = gathers;
      waiting.set(gather, resolve);
      const timer = setTimeout(() => reject(new Error('the primary does not answer')), gatherTimeoutMs);
      send({ gather });
      return await promise.finally(() => {
        clearTimeout(timer);
        waiting.delete(gather);
      });
    },
    onStop(handle) {
      stop = handle;
    },
    close() {
      // Counts since the last report would be lost with the process.
      report();
      worker.disconnect();
    },
  };
}
