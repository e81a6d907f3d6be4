/** A value with the interval in which it lies with a probability of 95 %. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const resamples = 2_000;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** The median of ours divided by theirs, round by round: what both met in the same round cancels out. */
export function pairedRatio(ours: readonly number[], theirs: readonly number[]): Estimate {
  if (ours.length !== theirs.length) throw new Error('the rounds of both must be the same');
  return bootstrap(ours.map((value, i) => value / (theirs[i] ?? Number.NaN)));
}

/** Whether ours divided by theirs is above a limit, by the whole interval: noise alone is not a loss. */
export function isOver(ours: readonly number[], theirs: readonly number[], limit: number): boolean {
  return pairedRatio(ours, theirs).low > limit;
}

/** The median, with the interval that the medians of random resamples give (percentile bootstrap). */
export function bootstrap(values: readonly number[]): Estimate {
  const random = seededRandom(1);
  const pick = () => values[Math.floor(random() * values.length)] ?? Number.NaN;
  const medians = Array.from({ length: resamples }, () => median(values.map(pick))).sort((a, b) => a - b);
  const at = (share: number) => medians[Math.round((resamples - 1) * share)] ?? Number.NaN;
  return { value: median(values), low: at(0.025), high: at(0.975) };
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32): a report can be computed again. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A copy in random order. */
export function shuffle<T>(items: readonly T[], random: () => number = Math.random): T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
