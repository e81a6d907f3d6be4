export interface Delivery {
  readonly name: string;
  acknowledgedAt: number | undefined;
  /** Whether there was no fault when it was acknowledged. */
  isQuiet: boolean;
  /** The number of followers that have received it. */
  received: number;
  /** The number of followers that received it before the writer got its response. */
  early: number;
}

const stepsOfMs = 10;
const maxMs = 60_000;

/** Counts times in steps of a tenth of a millisecond. */
class Times {
  readonly #counts = new Float64Array(maxMs * stepsOfMs + 1);
  #count = 0;

  add(ms: number, times = 1): void {
    const step = Math.min(Math.max(0, Math.round(ms * stepsOfMs)), maxMs * stepsOfMs);
    this.#counts[step] = (this.#counts[step] ?? 0) + times;
    this.#count += times;
  }

  /** A quantile in milliseconds. */
  quantile(share: number): number {
    let left = this.#count * share;
    for (const [step, count] of this.#counts.entries()) {
      left -= count;
      if (left <= 0) return step / stepsOfMs;
    }
    return maxMs;
  }
}

/** Records how many followers have received each change, and how long after the response to its writer. */
export class Deliveries {
  readonly #followers: number;
  readonly #deliveries = new Map<string, Delivery>();
  readonly all = new Times();
  readonly quiet = new Times();
  isQuiet = true;
  acknowledged = 0;

  constructor(followers: number) {
    this.#followers = followers;
  }

  acknowledge(name: string): void {
    this.acknowledged += 1;
    const delivery = this.find(name);
    delivery.acknowledgedAt = performance.now();
    delivery.isQuiet = this.isQuiet;
    this.all.add(0, delivery.early);
    if (delivery.isQuiet) this.quiet.add(0, delivery.early);
    this.#forget(delivery);
  }

  /** Counts a delivery. Changes before `since`, when the follower had disconnected, have no latency. */
  receive(delivery: Delivery, since: number, now: number): void {
    delivery.received += 1;
    const { acknowledgedAt } = delivery;
    if (acknowledgedAt === undefined) delivery.early += 1;
    else if (acknowledgedAt >= since) {
      const ms = now - acknowledgedAt;
      this.all.add(ms);
      if (delivery.isQuiet && this.isQuiet) this.quiet.add(ms);
    }
    this.#forget(delivery);
  }

  /** The number of acknowledged changes that some followers have not received. */
  get undelivered(): number {
    return [...this.#deliveries.values()].filter(({ acknowledgedAt }) => acknowledgedAt !== undefined).length;
  }

  find(name: string): Delivery {
    const found = this.#deliveries.get(name);
    if (found !== undefined) return found;
    const added = { name, acknowledgedAt: undefined, isQuiet: this.isQuiet, received: 0, early: 0 };
    this.#deliveries.set(name, added);
    return added;
  }

  #forget({ name, acknowledgedAt, received }: Delivery): void {
    if (acknowledgedAt !== undefined && received === this.#followers) this.#deliveries.delete(name);
  }
}
