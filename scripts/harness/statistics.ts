import { Random } from '../../src/conformance/random.ts';

/** A value with its 95 % confidence interval. */
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

/** The value below which this share of the values is, or NaN if there are none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN;
}

/** The median of the ratios of each round. Disturbances that affect both sides of a round cancel out. */
export function pairedRatio(ours: readonly number[], theirs: readonly number[]): Estimate {
  if (ours.length !== theirs.length) throw new Error('the rounds of both must be the same');
  return bootstrap(ours.map((value, i) => value / (theirs[i] ?? Number.NaN)));
}

/** Whether the whole interval of the ratio is above a limit, so that noise does not count as a loss. */
export function isOver(ours: readonly number[], theirs: readonly number[], limit: number): boolean {
  return pairedRatio(ours, theirs).low > limit;
}

/** The median, with an interval from the medians of random resamples (percentile bootstrap). */
export function bootstrap(values: readonly number[]): Estimate {
  const random = seededRandom(1);
  const pick = () => values[Math.floor(random() * values.length)] ?? Number.NaN;
  const medians = Array.from({ length: resamples }, () => median(values.map(pick))).sort((a, b) => a - b);
  const at = (share: number) => medians[Math.round((resamples - 1) * share)] ?? Number.NaN;
  return { value: median(values), low: at(0.025), high: at(0.975) };
}

/** Random numbers from 0 to 1 that depend only on the seed, so that reports are repeatable. */
export function seededRandom(seed: number): () => number {
  const random = new Random(seed);
  return () => random.below(2 ** 32) / 2 ** 32;
}

/** A copy in random order. */
export function shuffle<T>(items: readonly T[], random: () => number = Math.random): T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
