import { aborted, DomainError } from '../../domain/errors.ts';

export interface GateLimits {
  /** Calls inside at once. */
  readonly places: number;
  /** Calls in front of it at once; one more is `overloaded`. */
  readonly maxWaiting: number;
  /** Longest wait in milliseconds; then the call is `overloaded`. */
  readonly waitTimeoutMs: number;
}

/**
 * Lets so many calls at a time to the connections, the others in the order they came. The pool's own
 * queue has no bound, and does not let a call go whose caller has left.
 */
export class Gate {
  readonly #limits: GateLimits;
  /** In order of arrival; each hands its place to a call. */
  readonly #waiting = new Set<() => void>();
  #free: number;

  constructor(limits: GateLimits) {
    this.#limits = limits;
    this.#free = limits.places;
  }

  /** Resolves when the call has a place, which it gives back with `leave`. */
  async enter(signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) throw aborted(signal);
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    if (this.#waiting.size >= this.#limits.maxWaiting) throw overloaded();
    await this.#wait(signal);
  }

  leave(): void {
    const [first] = this.#waiting;
    if (first === undefined) this.#free += 1;
    else first();
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        this.#waiting.delete(admit);
      };
      const admit = () => {
        stop();
        resolve();
      };
      const refuse = (error: DomainError) => {
        stop();
        reject(error);
      };
      const abort = () => signal && refuse(aborted(signal));
      const timer = setTimeout(() => refuse(overloaded()), this.#limits.waitTimeoutMs);
      signal?.addEventListener('abort', abort);
      this.#waiting.add(admit);
    });
  }
}

function overloaded(): DomainError {
  return new DomainError('overloaded', 'too many requests wait for the database');
}
