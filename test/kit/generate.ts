/** A repeatable random generator (mulberry32). The same seed gives the same values. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** From 0 up to, not including, 1. */
  number(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 up to, not including, `bound`. */
  below(bound: number): number {
    return Math.floor(this.number() * bound);
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new Error('the list is empty');
    return item;
  }

  /** Text of every kind, with difficult kinds more often than usual. */
  text(maxLength = 12): string {
    const ranges = [
      [0x20, 0x7e],
      [0x61, 0x7a],
      [0x00, 0x9f],
      [0x300, 0x36f],
      [0x600, 0x6ff],
      [0x2000, 0x2069],
      [0x4e00, 0x9fff],
      [0xd7f0, 0xe010],
      [0x1f600, 0x1f64f],
      [0x10fff0, 0x10ffff],
    ] as const;
    const [from, to] = this.pick(ranges);
    const length = this.below(20) === 0 ? 195 + this.below(12) : this.below(maxLength);
    return Array.from({ length }, () => String.fromCodePoint(from + this.below(to - from + 1))).join('');
  }

  /** Any JSON value. */
  json(depth = 4): unknown {
    const kind = this.below(depth > 0 ? 9 : 7);
    if (kind === 0) return null;
    if (kind === 1) return this.below(2) === 0;
    if (kind === 2) return this.pick([0, -1, 1, 1.5, 1e21, 2 ** 31, Number.MAX_VALUE, -0]);
    if (kind < 7) return this.text();
    const length = this.below(4);
    if (kind === 7) return Array.from({ length }, () => this.json(depth - 1));
    const names = ['id', 'name', 'role', 'title', 'body', '__proto__', 'constructor', 'length', ''] as const;
    // Defined instead of assigned, so that `__proto__` becomes a field.
    const entries = Array.from({ length }, () => [this.pick(names), this.json(depth - 1)] as const);
    return Object.fromEntries(entries);
  }
}
