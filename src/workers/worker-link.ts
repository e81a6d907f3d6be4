import cluster from 'node:cluster';
import type { Addresses } from '../service.ts';
import { portsVariable, type ToPrimary, type ToWorker } from './messages.ts';

// Longer than the primary waits for the other workers.
const gatherTimeoutMs = 2_000;

/** A worker's side: its part of the options, and the way to its primary. */
export interface WorkerLink {
  readonly port: number;
  readonly grpcPort: number | false;
  /** Serves from now on; `metrics` gives its own. */
  ready(addresses: Addresses, metrics: () => string): void;
  /** The metrics of all workers together. */
  gatherMetrics(): Promise<string>;
  onStop(handle: () => void): void;
  /** Lets go of the primary, so that the process can end. */
  leave(): void;
}

/** The link to the primary; `undefined` in a process that is not its worker. */
export function workerLink(env: Readonly<Record<string, string | undefined>>): WorkerLink | undefined {
  const { worker } = cluster;
  const ports = env[portsVariable];
  if (worker === undefined || ports === undefined) return undefined;
  const [port, grpcPort] = JSON.parse(ports);
  const tell = (message: ToPrimary): unknown => worker.send(message, () => undefined);
  const gathering = new Gathering(() => tell('gather'));
  let report = (): void => undefined;
  worker.on('message', (message: ToWorker) => {
    if (message === 'report') report();
    else if (message !== 'stop') gathering.end(message.gathered);
  });
  return {
    port,
    grpcPort,
    ready(addresses, metrics) {
      report = () => tell({ metrics: metrics() });
      tell({ ready: addresses });
    },
    gatherMetrics: () => gathering.text(),
    onStop: (handle) => worker.on('message', (message: ToWorker) => message === 'stop' && handle()),
    leave() {
      // What it has counted since it was last asked would go with it.
      report();
      worker.disconnect();
    },
  };
}

/** The way of a question to the primary and back; those who ask meanwhile share it. */
class Gathering {
  readonly #ask: () => void;
  #waiting: PromiseWithResolvers<string> | undefined;

  constructor(ask: () => void) {
    this.#ask = ask;
  }

  async text(): Promise<string> {
    if (this.#waiting === undefined) {
      this.#waiting = Promise.withResolvers();
      this.#ask();
    }
    const waiting = this.#waiting;
    const timer = setTimeout(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
      waiting.reject(new Error('the primary does not answer'));
    }, gatherTimeoutMs);
    return await waiting.promise.finally(() => clearTimeout(timer));
  }

  end(text: string): void {
    this.#waiting?.resolve(text);
    this.#waiting = undefined;
  }
}
