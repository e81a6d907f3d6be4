/** A moment after which waiting ends; it can be moved forward, never back. */
export class Deadline {
  readonly #aborter = new AbortController();
  #at = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  /** Aborts when the moment has come. */
  get signal(): AbortSignal {
    return this.#aborter.signal;
  }

  /** Sets it so many milliseconds from now, unless it comes earlier already. */
  hasten(ms: number): void {
    const at = performance.now() + ms;
    if (at >= this.#at) return;
    this.#at = at;
    clearTimeout(this.#timer);
    if (ms <= 0) this.#aborter.abort();
    else this.#timer = setTimeout(() => this.#aborter.abort(), ms);
  }

  /** Waits, but not beyond the deadline. */
  async sleep(ms: number): Promise<void> {
    const { signal } = this;
    if (ms <= 0 || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    clearTimeout(timer);
  }

  /** Nothing is waiting any more. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}
