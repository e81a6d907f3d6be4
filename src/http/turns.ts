const turnMs = 2;
// How many new connections, and how many long bodies, may be read in a turn. Their bytes are parsed at once.
const maxReadsPerTurn = 4;
// After this many turns in a row with a new connection, more are probably waiting to be accepted.
const maxArrivals = 16;
// How many turns in a row may do no work while connections arrive.
const maxYields = 64;
// The maximum number of promise steps of a reply when its store returns synchronously.
const promiseSteps = 20;

/** Does a piece of work; returns whether it continues in promises. */
export type Work = () => boolean;

/**
 * Shares the event loop. In each turn the loop accepts one connection and reads the bytes that have arrived; then this
 * class takes over some connections and does some work. If all requests were handled at once, a probe on a new
 * connection would wait for a long turn for each connection accepted before it.
 */
export class Turns {
  /** The newest is taken first: in a flood, another order would only make all of them wait longer. */
  readonly #connections: (() => void)[] = [];
  readonly #bodies: (() => void)[] = [];
  /** Replies that have begun continue before others begin, so that few of them are in memory at a time. */
  readonly #begun: Work[] = [];
  readonly #waiting: Work[] = [];
  #scheduled = false;
  /** When the time for work is over in the present turn, by `performance.now()`. */
  #end = 0;
  #accepted = false;
  /** Turns in a row in which a connection was accepted. */
  #arrivals = 0;
  #yields = 0;

  /** Takes over an accepted connection after all waiting connections have been accepted. */
  addConnection(take: () => void): void {
    this.#accepted = true;
    this.#connections.push(take);
    this.#schedule();
  }

  /** Continues to read a long body when it is its turn. */
  addBody(resume: () => void): void {
    this.#bodies.push(resume);
    this.#schedule();
  }

  /** Whether work may be done at once: nothing waits, and the present turn is not over. */
  isFree(now: number): boolean {
    if (!this.#scheduled) {
      this.#end = now + turnMs;
      this.#schedule();
    }
    return now < this.#end && this.#left === 0;
  }

  /** Does the work when its turn comes. */
  add(work: Work): void {
    this.#waiting.push(work);
    this.#schedule();
  }

  /** Resolves when a reply that has begun may continue. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#begun.push(() => {
        resolve();
        return true;
      });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(this.#next);
  }

  readonly #next = async (): Promise<void> => {
    this.#arrivals = this.#accepted ? this.#arrivals + 1 : 0;
    this.#accepted = false;
    const mayYield = this.#yields < maxYields;
    const accepts = mayYield && this.#arrivals > maxArrivals;
    for (let i = 0; i < maxReadsPerTurn && !accepts; i += 1) {
      this.#connections.pop()?.();
      this.#bodies.shift()?.();
    }
    if (mayYield && (accepts || this.#connections.length > 0)) {
      this.#yields += 1;
    } else {
      this.#yields = 0;
      await this.#work();
    }
    this.#scheduled = false;
    if (this.#left + this.#bodies.length > 0) this.#schedule();
  };

  get #left(): number {
    return this.#connections.length + this.#begun.length + this.#waiting.length;
  }

  async #work(): Promise<void> {
    this.#end = performance.now() + turnMs;
    do {
      const work = this.#begun.shift() ?? this.#waiting.shift();
      if (work === undefined) return;
      if (work()) for (let i = 0; i < promiseSteps; i += 1) await undefined;
    } while (performance.now() < this.#end);
  }
}

/** The turns of this thread, which has one event loop for all its services. */
export const turns = new Turns();
