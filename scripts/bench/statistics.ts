import type { Bar, CaseResult } from './case.ts';

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

export interface Verdict extends Bar {
  /** The median over the rounds of ours divided by theirs, or of ours alone. */
  readonly ratio: number;
  /** The same for CPU time per request, turned over: more is better here, too. */
  readonly cpuRatio: number | undefined;
  readonly reached: boolean;
}

/** Compares round by round: what both met in the same moment cancels out. */
export function verdicts({ series, bars }: CaseResult): Verdict[] {
  const find = (name: string) => series.find((one) => one.name === name);
  return bars.flatMap((bar) => {
    const ours = find(bar.ours);
    const theirs = bar.theirs === undefined ? undefined : find(bar.theirs);
    if (ours === undefined || (theirs === undefined && bar.theirs !== undefined)) return [];
    const ratio = theirs === undefined ? median(ours.values) : medianRatio(ours.values, theirs.values);
    const cpuRatio =
      ours.cpuMicros && theirs?.cpuMicros ? medianRatio(theirs.cpuMicros, ours.cpuMicros) : undefined;
    const reached = ratio >= (bar.atLeast ?? 0) && ratio <= (bar.atMost ?? Number.POSITIVE_INFINITY);
    return [{ ...bar, ratio, cpuRatio, reached }];
  });
}

function medianRatio(ours: readonly number[], theirs: readonly number[]): number {
  return median(ours.map((value, i) => value / (theirs[i] ?? Number.NaN)));
}
