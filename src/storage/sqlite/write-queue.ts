import type { Worker } from 'node:worker_threads';
import { DomainError, type ErrorKind } from '../../domain/errors.ts';
import type { SqliteWrites } from './writes.ts';

export type WriteName = keyof SqliteWrites;

/** A write for the writer thread. */
export interface Write {
  readonly name: WriteName;
  readonly parameters: readonly unknown[];
}

/** The outcome of a write. An error loses its class between threads, so its parts are sent. */
export type Outcome =
  | { readonly value: unknown }
  | { readonly failed: { readonly kind: ErrorKind; readonly message: string; readonly cause: unknown } };

/** A group of writes to commit, or the request to close. */
export type WriterMessage = readonly Write[] | 'close';

export interface WriterReply {
  readonly outcomes: readonly Outcome[];
  /** Why the group was not committed; absent when it was. */
  readonly failure?: unknown;
}

export interface WriteQueueOptions {
  /** Starts the writer thread. Called by `start`, and at the first write after a crash of the thread. */
  readonly startWriter: () => Worker;
  /** Maximum number of waiting or running writes; more are rejected. */
  readonly maxPendingWrites: number;
  /** How long a write may wait for its turn, in milliseconds. */
  readonly maxWaitMs: number;
  /** Called after each commit. */
  readonly onCommit?: () => void;
}

interface PendingWrite extends Write {
  readonly since: number;
  resolve(value: unknown): void;
  reject(error: DomainError): void;
}

// Other processes wait while a transaction has the lock: about 5 ms with this many writes.
const maxGroupSize = 256;

/**
 * Passes writes to the writer thread, one group at a time. Writes that arrive during a commit are the next group: the
 * slower the disk, the larger the groups.
 */
export class WriteQueue {
  readonly #options: WriteQueueOptions;
  #waiting: PendingWrite[] = [];
  #sent: PendingWrite[] = [];
  #sending = false;
  #writer: Worker | undefined;
  #idle: PromiseWithResolvers<void> | undefined;
  #failure: unknown;

  constructor(options: WriteQueueOptions) {
    this.#options = options;
  }

  /** Why the last group was not committed; `undefined` when it was. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Starts the writer thread, before the first write needs it. */
  start(): void {
    this.#writer ??= this.#startWriter();
    // An idle writer does not keep the process alive.
    this.#writer.unref();
  }

  write<Name extends WriteName>(
    name: Name,
    parameters: Parameters<SqliteWrites[Name]>,
  ): Promise<ReturnType<SqliteWrites[Name]>> {
    if (this.#waiting.length + this.#sent.length >= this.#options.maxPendingWrites) {
      return Promise.reject(new DomainError('overloaded', 'too many writes are waiting'));
    }
    return new Promise((resolve, reject) => {
      // The writer returns the result of the method in the message.
      const settle = resolve as (value: unknown) => void;
      this.#waiting.push({ name, parameters, since: performance.now(), resolve: settle, reject });
      if (this.#sending) return;
      this.#sending = true;
      // Runs after the requests that have arrived together with this one, so that they become one group.
      setImmediate(() => this.#sendGroup());
    });
  }

  /** Resolves when no write is waiting or running. */
  async drain(): Promise<void> {
    if (!this.#sending) return;
    this.#idle ??= Promise.withResolvers();
    await this.#idle.promise;
  }

  /** Ends the writer thread. Call it after `drain`. */
  async close(): Promise<void> {
    const writer = this.#writer;
    if (writer === undefined) return;
    this.#writer = undefined;
    const exited = new Promise((resolve) => writer.once('exit', resolve));
    writer.ref();
    send(writer, 'close');
    await exited;
  }

  #sendGroup(): void {
    if (this.#sent.length > 0) return;
    while (this.#sent.length === 0 && this.#waiting.length > 0) {
      this.#sent = this.#waiting.splice(0, maxGroupSize).filter((write) => this.#isWanted(write));
    }
    this.#sending = this.#sent.length > 0;
    if (!this.#sending) {
      this.#writer?.unref();
      this.#idle?.resolve();
      return;
    }
    try {
      this.#writer ??= this.#startWriter();
      this.#writer.ref();
      const group = this.#sent.map(({ name, parameters }) => ({ name, parameters }));
      send(this.#writer, group);
    } catch (caught) {
      this.#failAll(caught);
    }
  }

  #isWanted({ since, reject }: PendingWrite): boolean {
    // While another process has the lock, each group waits for the full timeout. Later writes would wait for the sum.
    if (performance.now() - since > this.#options.maxWaitMs) {
      reject(new DomainError('unavailable', 'the store is not available'));
      return false;
    }
    return true;
  }

  #startWriter(): Worker {
    const writer = this.#options.startWriter();
    writer.on('message', (reply: WriterReply) => this.#answer(reply));
    writer.on('error', (error) => this.#lose(writer, error));
    writer.on('exit', (code) => this.#lose(writer, new Error(`the writer thread exited with code ${code}`)));
    return writer;
  }

  #answer({ outcomes, failure }: WriterReply): void {
    this.#failure = failure;
    const answered = this.#sent;
    this.#sent = [];
    // Send the next group first, so that it is committed while these writes are resolved.
    this.#sendGroup();
    if (failure === undefined) this.#options.onCommit?.();
    for (const [i, { resolve, reject }] of answered.entries()) {
      const outcome = outcomes[i];
      if (outcome === undefined) reject(new DomainError('internal', 'a write was not answered'));
      else if ('failed' in outcome) {
        const { kind, message, cause } = outcome.failed;
        reject(new DomainError(kind, message, { cause }));
      } else resolve(outcome.value);
    }
  }

  #lose(writer: Worker, cause: unknown): void {
    if (this.#writer !== writer) return;
    this.#writer = undefined;
    this.#failAll(cause);
  }

  #failAll(cause: unknown): void {
    this.#failure = cause;
    const failed = [...this.#sent, ...this.#waiting];
    this.#sent = [];
    this.#waiting = [];
    this.#sendGroup();
    for (const { reject } of failed) {
      reject(new DomainError('unavailable', 'the store is not available', { cause }));
    }
  }
}

function send(writer: Worker, message: WriterMessage): void {
  writer.postMessage(message);
}
