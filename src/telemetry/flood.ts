import type { ServiceEvent } from './events.ts';

/** Lets the first events of a second through and sums up the others when it is over. */
export class Flood {
  readonly #perSecond: number;
  readonly #print: (event: ServiceEvent, count: number) => void;
  #taken = 0;
  #withheld = 0;
  #last: ServiceEvent | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(perSecond: number, print: (event: ServiceEvent, count: number) => void) {
    this.#perSecond = perSecond;
    this.#print = print;
  }

  take(event: ServiceEvent): void {
    this.#timer ??= setTimeout(() => this.end(), 1_000).unref();
    this.#taken += 1;
    if (this.#taken <= this.#perSecond) {
      this.#print(event, 1);
    } else {
      this.#withheld += 1;
      this.#last = event;
    }
  }

  /** The second is over: the next event opens another. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#taken = 0;
    if (this.#last !== undefined) {
      const [last, count] = [this.#last, this.#withheld];
      this.#last = undefined;
      this.#withheld = 0;
      // It goes on: the line that sums up this second is the next one's.
      this.#taken = 1;
      this.#timer = setTimeout(() => this.end(), 1_000).unref();
      this.#print(last, count);
    }
  }
}
