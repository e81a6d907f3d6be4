import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { DomainError } from '../../domain/errors.ts';
import { unavailable } from './errors.ts';
import type { SqliteWrites } from './writes.ts';

export interface Write {
  readonly name: keyof SqliteWrites;
  readonly parameters: readonly unknown[];
}

/** The parts of a `DomainError`, because an error loses its class between threads. */
export type Failure = Pick<DomainError, 'kind' | 'message' | 'cause' | 'isFinal'>;

export type Outcome<Value = unknown> = { readonly value: Value } | { readonly failed: Failure };

/** A message to the writer: a group of writes to commit, or the request to close. */
export type WriterMessage = readonly Write[] | 'close';

/** The reply to a group: the outcome of each write, or the reason why the group was not committed. */
export type WriterReply = Outcome<readonly Outcome[]>;

export interface WriteQueueOptions {
  /** Starts the writer thread. Called by `start`, and at a write when no thread runs. */
  readonly startWriter: () => Worker;
  /** Maximum number of waiting or running writes; more are rejected. */
  readonly maxPendingWrites: number;
  /** How long a commit may run before the writes that wait for it are rejected, in milliseconds. */
  readonly maxWaitMs: number;
}

interface PendingWrite extends Write {
  resolve(value: unknown): void;
  reject(error: DomainError): void;
}

/** Passes writes to the writer thread, one group at a time. Those that arrive during a commit are the next group. */
export class WriteQueue {
  readonly #options: WriteQueueOptions;
  #waiting: PendingWrite[] = [];
  /** The number of writes in the group that the writer commits now. */
  #groupSize = 0;
  #commits: Promise<void> | undefined;
  #writer: Worker | undefined;
  #onReply: (reply: WriterReply) => void = () => {};
  /** Why writes fail: the last group was not committed, the running one takes too long, or the thread has ended. */
  failure: Failure | undefined;

  constructor(options: WriteQueueOptions) {
    this.#options = options;
  }

  /** Starts the writer thread before the first write, unless it runs. */
  start(): void {
    try {
      this.#runningWriter();
    } catch (caught) {
      this.failure = unavailable(caught);
    }
  }

  /** The writer thread, which is started unless it runs. An idle writer does not keep the process alive. */
  #runningWriter(): Worker {
    if (this.#writer !== undefined) return this.#writer;
    const writer = this.#options.startWriter();
    this.#writer = writer;
    // A late reply of a lost thread must not settle the group of the next one.
    writer.on('message', (reply: WriterReply) => this.#writer === writer && this.#onReply(reply));
    // `Error.isError` does not recognize an error of a thread, so the log would lack its reason.
    writer.on('error', ({ message, cause }: Error) =>
      this.#onLoss(writer, new Error(cause instanceof Error ? cause.message : message)),
    );
    writer.on('exit', (code) =>
      this.#onLoss(writer, new Error(`the writer thread exited with code ${code}`)),
    );
    // Last, because a listener for messages keeps the process alive again.
    writer.unref();
    return writer;
  }

  write<Name extends keyof SqliteWrites>(
    name: Name,
    parameters: Parameters<SqliteWrites[Name]>,
  ): Promise<ReturnType<SqliteWrites[Name]>> {
    if (this.#waiting.length + this.#groupSize >= this.#options.maxPendingWrites) {
      return Promise.reject(new DomainError('overloaded', 'too many writes are waiting'));
    }
    return new Promise((resolve, reject) => {
      // The writer returns the result of the method in the message.
      const settle = resolve as (value: unknown) => void;
      this.#waiting.push({ name, parameters, resolve: settle, reject });
      this.#commits ??= this.#commitAll();
    });
  }

  /** Sends a write that changes nothing, unless others wait or run, to learn whether writes succeed again. */
  tryAgain(): void {
    if (this.#commits === undefined) this.write('touch', []).catch(() => undefined);
  }

  /** Ends the writer thread after the running writes. */
  async close(): Promise<void> {
    await this.#commits;
    const writer = this.#writer;
    if (writer === undefined) return;
    this.#writer = undefined;
    const exited = new Promise((resolve) => writer.once('exit', resolve));
    writer.ref();
    writer.postMessage('close' satisfies WriterMessage);
    await exited;
  }

  async #commitAll(): Promise<void> {
    // Wait for the requests that arrived together with the first one, so that they become one group.
    await nextTurn();
    while (this.#waiting.length > 0) {
      const group = this.#waiting.splice(0);
      this.#groupSize = group.length;
      // On a disk that hangs, a commit may never end. Whether it takes effect is unknown, so its writes keep waiting.
      const timer = setInterval(() => {
        const late = unavailable(new Error(`a commit takes longer than ${this.#options.maxWaitMs} ms`));
        this.failure = late;
        for (const { reject } of this.#waiting.splice(0)) reject(late);
      }, this.#options.maxWaitMs);
      const reply = await this.#commit(group);
      // Not `using`: a test of the host may mock timers, and such a timer is not disposable.
      clearInterval(timer);
      this.failure = 'failed' in reply ? reply.failed : undefined;
      this.#settle(group, reply);
    }
    this.#groupSize = 0;
    this.#commits = undefined;
    this.#writer?.unref();
  }

  #commit(group: readonly PendingWrite[]): Promise<WriterReply> {
    return new Promise((resolve) => {
      this.#onReply = resolve;
      try {
        const writer = this.#runningWriter();
        writer.ref();
        const writes: Write[] = group.map(({ name, parameters }) => ({ name, parameters }));
        // To learn whether writes succeed again. The others may change nothing, and then succeed even on a full disk.
        if (this.failure !== undefined) writes.push({ name: 'touch', parameters: [] });
        writer.postMessage(writes satisfies WriterMessage);
      } catch (caught) {
        resolve({ failed: unavailable(caught) });
      }
    });
  }

  /** Settles the writes of a group. Their callers continue after the next group was sent to the writer. */
  #settle(group: readonly PendingWrite[], reply: WriterReply): void {
    const outcomes = 'value' in reply ? reply.value : group.map(() => reply);
    for (const [i, outcome] of outcomes.entries()) {
      if ('value' in outcome) group[i]?.resolve(outcome.value);
      else group[i]?.reject(new DomainError(outcome.failed.kind, outcome.failed.message, outcome.failed));
    }
  }

  #onLoss(writer: Worker, cause: unknown): void {
    if (this.#writer !== writer) return;
    this.#writer = undefined;
    this.failure = unavailable(cause);
    this.#onReply({ failed: this.failure });
  }
}
