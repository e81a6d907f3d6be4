import { AsyncResource } from 'node:async_hooks';
// Imported, because a test of the host may mock the global one for a while, and its callbacks would never run.
import { setImmediate } from 'node:timers';

const turnMs = 2;
// Estimates the time of writes, which Node does after the tasks of a turn. Only a client with a small window is slower.
const bytesPerMs = 128 * 1024;
// At most this many new connections are read in a turn.
const maxReadsPerTurn = 4;
// After this many turns in a row that accepted a connection, more connections are probably waiting.
const floodAfterTurns = 16;
// While connections wait, at most this many turns skip their tasks. That is enough for a burst of connections.
const maxSkips = 2_048;
// Each turn that runs tasks allows this many more turns to skip them.
const skipsPerTurn = 64;
// A reply takes at most this many promise steps when its store returns synchronously.
const promiseSteps = 20;

/** Returns `false` if the task has ended, and anything else if it continues in promises. */
type Task = () => unknown;

/**
 * Shares the event loop between connections. In each turn, Node accepts one connection and reads the bytes that have
 * arrived. Then the scheduler begins to read some of the accepted connections, sends replies, and runs tasks for about
 * 2 ms. A new connection waits for one turn for each connection before it. So while connections wait, most turns skip
 * the replies and tasks, and take much less time.
 */
export class Scheduler {
  /** In the order of arrival. Taken from both ends: in a flood, a new one need not wait for all others. */
  readonly #connections: (() => void)[] = [];
  /** Requests that have started continue before others start, so that few of them are in memory at a time. */
  readonly #started: Task[] = [];
  readonly #tasks: Task[] = [];
  /** Streams, and other work that repeats. A fast client always makes its stream wait for another chunk. */
  readonly #chunks: (() => void)[] = [];
  #isChunkFirst = false;
  #isScheduled = false;
  /** When the time for tasks ends in the current turn, by `performance.now()`. */
  #deadline = 0;
  #hasAccepted = false;
  /** Turns in a row that accepted a connection. */
  #arrivalTurns = 0;
  /** Turns that skipped their tasks, less `skipsPerTurn` for each later turn that did not. */
  #skips = 0;

  /** Calls `take` in a later turn. While many connections arrive, up to `maxSkips` turns only accept them. */
  addConnection(take: () => void): void {
    this.#hasAccepted = true;
    this.#add(this.#connections, take);
  }

  /** Admits a task to this turn, to run at once, if nothing waits and the turn has time left. The first begins a turn. */
  admit(now: number): boolean {
    if (!this.#isScheduled) {
      this.#deadline = now + turnMs;
      this.#schedule();
    }
    return now < this.#deadline && this.#waiting === 0;
  }

  /**
   * Runs a task, the start of a request, after those that wait, with the `AsyncLocalStorage` of its caller. Returns a
   * function that drops the task, so that it does not stay in memory until its turn.
   */
  addTask(task: Task): () => void {
    return this.#addBound(this.#tasks, task);
  }

  /**
   * Sends a reply after the requests that Node reads in this turn have run. A reply between them would cost much more
   * processor time, probably because reading, running and sending push each other's code out of the caches.
   */
  addReply(send: Task): void {
    this.#addBound(this.#started, send);
  }

  /** Resolves when a request that has started may continue. For work that repeats, use `pause`. */
  wait(): Promise<void> {
    return new Promise((resolve) => this.#add(this.#started, resolve));
  }

  /** Resolves when work that repeats may continue, to write a chunk of `bytes` bytes. New requests start meanwhile. */
  pause(bytes = 0): Promise<void> {
    return new Promise((resolve) => {
      this.#add(this.#chunks, () => {
        this.#deadline -= bytes / bytesPerMs;
        resolve();
      });
    });
  }

  #addBound(queue: Task[], task: Task): () => void {
    const caller = new AsyncResource('users-service');
    let waiting: Task | undefined = task;
    this.#add(queue, () => waiting !== undefined && caller.runInAsyncScope(waiting));
    return () => {
      waiting = undefined;
    };
  }

  #add(queue: Task[], task: Task): void {
    queue.push(task);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#runTurn);
  }

  readonly #runTurn = async (): Promise<void> => {
    this.#arrivalTurns = this.#hasAccepted ? this.#arrivalTurns + 1 : 0;
    this.#hasAccepted = false;
    const maySkip = this.#skips < maxSkips;
    const onlyAccepts = maySkip && this.#arrivalTurns > floodAfterTurns;
    if (!onlyAccepts) this.#beginReading();
    if (onlyAccepts || (maySkip && this.#connections.length > 0)) this.#skips += 1;
    else {
      this.#skips = Math.max(0, this.#skips - skipsPerTurn);
      await this.#runTasks();
    }
    this.#isScheduled = false;
    if (this.#waiting + this.#started.length > 0) this.#schedule();
  };

  #beginReading(): void {
    for (let i = 0; i < maxReadsPerTurn; i += 1) {
      (i % 2 === 0 ? this.#connections.shift() : this.#connections.pop())?.();
    }
  }

  get #waiting(): number {
    return this.#connections.length + this.#tasks.length + this.#chunks.length;
  }

  async #runTasks(): Promise<void> {
    let now = performance.now();
    this.#deadline = now + turnMs;
    // Chunks and new requests get half of the turn each, alternately first: a first task may take all of the time.
    this.#isChunkFirst = !this.#isChunkFirst;
    do {
      const isFirstHalf = now < this.#deadline - turnMs / 2;
      const isChunkNext = isFirstHalf === this.#isChunkFirst;
      const [first, second] = isChunkNext ? [this.#chunks, this.#tasks] : [this.#tasks, this.#chunks];
      const task: Task | undefined = this.#started.shift() ?? first.shift() ?? second.shift();
      if (task === undefined) return;
      // Let the promises of this reply finish before the next reply starts.
      if (task() !== false) for (let i = 0; i < promiseSteps; i += 1) await undefined;
      now = performance.now();
    } while (now < this.#deadline);
  }
}

/** The scheduler of all services of this thread, which share its event loop. */
export const scheduler = new Scheduler();
