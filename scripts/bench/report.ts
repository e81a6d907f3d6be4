import { cpus, totalmem } from 'node:os';
import { bootstrap, type Estimate, median, pairedRatio } from '../harness/statistics.ts';
import type { Bar, CaseResult, Series } from './result.ts';
import { cpu } from './turns.ts';

/** The machine on which the values were measured. */
export function machine() {
  const [first] = cpus();
  return {
    processor: first?.model ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
  };
}

/** A table of one case: medians over the rounds, ratios of the first series to each other one, and the bars. */
export function printCase(result: CaseResult): string {
  const { name, title, series, compare, notes = [] } = result;
  const [first, ...others] = series;
  const metrics = Object.keys(first?.values ?? {});
  const header = [
    '',
    ...metrics,
    ...(others.length > 0 ? compare.map((metric) => `ratio of ${metric}`) : []),
  ];
  const rows = series.map((one) => [
    one.name,
    ...metrics.map((metric) => format(median(one.values[metric] ?? []))),
    ...(one === first ? [] : compare.map((metric) => interval(ratioOf(first, one, metric)))),
  ]);
  const bars = verdicts(result).map(({ what, estimate, reached, goal }) => {
    return `  ${reached ? 'reached' : 'MISSED '} ${what}: ${interval(estimate)}, ${goal}`;
  });
  return [
    `${name}: ${title}`,
    ...table([header, ...rows]),
    ...bars,
    ...notes.map((note) => `  ${note}`),
    '',
  ].join('\n');
}

/** The number of reached bars, and the machine. */
export function summary(results: readonly CaseResult[]): string {
  const all = results.flatMap(verdicts);
  const reached = all.filter((one) => one.reached).length;
  const { processor, cores, memoryGiB, node } = machine();
  return `${reached} of ${all.length} bars reached; ${processor}, ${cores} cores, ${memoryGiB} GiB, Node ${node}`;
}

export function verdicts({ series, bars = [] }: CaseResult) {
  return bars.flatMap((bar: Bar) => {
    const find = (name: string | undefined) => series.find((one) => one.name === name);
    const ours = bar.ours === undefined ? series[0] : find(bar.ours);
    const theirs = find(bar.theirs);
    // A peer may be missing on this machine.
    if (ours === undefined || (theirs === undefined && bar.theirs !== undefined)) return [];
    const metric = bar.metric ?? Object.keys(ours.values)[0] ?? '';
    const estimate =
      theirs === undefined ? bootstrap(ours.values[metric] ?? []) : ratioOf(ours, theirs, metric);
    const { atLeast = 0, atMost = Number.POSITIVE_INFINITY } = bar;
    const reached = estimate.value >= atLeast && estimate.value <= atMost;
    const goal = bar.atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
    const what = [ours.name, ...(theirs === undefined ? [] : [theirs.name])].join(' / ');
    const cpuTime = theirs?.values[cpu] === undefined ? undefined : ratioOf(ours, theirs, cpu);
    return [{ what: `${metric} of ${what}`, estimate, cpuTime, reached, goal }];
  });
}

export function ratioOf(ours: Series | undefined, theirs: Series, metric: string): Estimate {
  return pairedRatio(ours?.values[metric] ?? [], theirs.values[metric] ?? []);
}

export function interval({ value, low, high }: Estimate): string {
  return `${format(value)} [${format(low)}, ${format(high)}]`;
}

function table(rows: readonly (readonly string[])[]): string[] {
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  return rows.map((row) => {
    const cells = row.map((cell, i) => (i === 0 ? cell.padEnd(width(i)) : cell.padStart(width(i))));
    return `  ${cells.join('  ')}`.trimEnd();
  });
}

export function format(value: number): string {
  const digits = value >= 1_000 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}
