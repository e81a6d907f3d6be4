import { cpus, totalmem } from 'node:os';
import type { Bar, CaseResult } from './case.ts';
import { median, verdicts } from './statistics.ts';

/** What the numbers were measured on. */
export function machine() {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  };
}

/** A table of one case: medians over the rounds, then its bars. */
export function printCase(result: CaseResult): string {
  const rows = result.series.map(({ name, values, cpuMicros, p99Ms }) => [
    name,
    format(median(values)),
    `${format(Math.min(...values))}-${format(Math.max(...values))}`,
    cpuMicros === undefined ? '' : median(cpuMicros).toFixed(1),
    p99Ms === undefined ? '' : median(p99Ms).toFixed(2),
  ]);
  const header = ['', result.unit, 'range', 'CPU us/request', 'p99 ms'];
  const bars = verdicts(result).map((verdict) => {
    const cpu = verdict.cpuRatio === undefined ? '' : ` (by CPU time ${verdict.cpuRatio.toFixed(2)})`;
    const { ours, theirs, ratio, reached } = verdict;
    const what = theirs === undefined ? ours : `${ours} / ${theirs}`;
    return `  ${reached ? 'ok    ' : 'MISSED'} ${what}: ${ratio.toFixed(2)}${cpu}, ${bound(verdict)}`;
  });
  const notes = (result.notes ?? []).map((note) => `  ${note}`);
  return [`${result.name}: ${result.title}`, ...table([header, ...rows]), ...bars, ...notes, ''].join('\n');
}

/** The bars of all cases, one a line. */
export function summary(results: readonly CaseResult[]): string {
  const all = results.flatMap((result) => verdicts(result));
  const missed = all.filter(({ reached }) => !reached).length;
  const { cpu, cores, memoryGiB, node } = machine();
  return `${all.length - missed} of ${all.length} bars reached; ${cpu}, ${cores} cores, ${memoryGiB} GiB, Node ${node}`;
}

export function bound({ atLeast, atMost }: Pick<Bar, 'atLeast' | 'atMost'>): string {
  return atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
}

function table(rows: readonly (readonly string[])[]): string[] {
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  return rows.map((row) => {
    const cells = row.map((cell, i) => (i === 0 ? cell.padEnd(width(i)) : cell.padStart(width(i))));
    return `  ${cells.join('  ')}`.trimEnd();
  });
}

function format(value: number): string {
  const digits = value >= 1_000 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits });
}
