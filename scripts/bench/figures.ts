import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { median } from '../harness/statistics.ts';
import { allPeers, bare } from './peers.ts';
import { drawPlot } from './plot.ts';
import { format, interval, ratioOf, verdicts } from './report.ts';
import type { CaseResult } from './result.ts';
import { root } from './subject.ts';
import { cpu, rate } from './turns.ts';

const marks = ['<!-- figures -->', '<!-- end of figures -->'] as const;

/** Writes the tables and the picture of README.md from the values that runs with --json have stored. */
export function publish(files: readonly string[]): void {
  const runs = files.map((file) => JSON.parse(readFileSync(file, 'utf8')) as Run);
  const results = runs.flatMap((run) => run.results);
  const path = join(root, 'scripts', 'bench', 'README.md');
  const text = readFileSync(path, 'utf8');
  const [before = '', after = ''] = [text.split(marks[0])[0], text.split(marks[1])[1]];
  writeFileSync(path, `${before}${marks[0]}\n\n${tables(results)}\n${marks[1]}${after}`);
  writeFileSync(join(root, '.github', 'speed.svg'), drawPlot(results));
}

interface Run {
  readonly results: readonly CaseResult[];
}

function tables(results: readonly CaseResult[]): string {
  return [
    besidePeers('With the same features', results, (name) => name),
    besidePeers('Bare peers, and the service with all of its features', results, bare),
    section(
      'Bars',
      ['Work', 'What is compared', 'Ratio', 'Of CPU time', 'Bar', ''],
      results.flatMap((result) => {
        return verdicts(result).map(({ what, estimate, cpuTime, goal, reached }) => {
          const cost = cpuTime === undefined ? '' : interval(cpuTime);
          return [result.title, what, interval(estimate), cost, goal, reached ? 'reached' : 'missed'];
        });
      }),
    ),
    section(
      'Latency',
      ['At a fixed rate', 'Server', 'p50', 'p99', 'p999, in ms'],
      results
        .filter(({ name }) => name.startsWith('latency'))
        .flatMap(({ title, series }) => series.map((one) => [title, one.name, ...medians(one.values, 3)])),
    ),
    section(
      'Several processes, and a small heap',
      ['Work', 'Compared', 'Requests a second', 'CPU time of a request'],
      results
        .filter(({ name }) => /^(workers|sharing|heap)/.test(name))
        .flatMap(({ title, series: [first, ...others] }) => {
          return others.map((one) => [
            title,
            `${first?.name} / ${one.name}`,
            ...[rate, cpu].map((metric) => interval(ratioOf(first, one, metric))),
          ]);
        }),
    ),
  ]
    .filter(Boolean)
    .join('\n');
}

/** The ratio of requests per second of the service to those of each peer. */
function besidePeers(
  title: string,
  results: readonly CaseResult[],
  nameOf: (name: (typeof allPeers)[number]) => string,
): string {
  const rows = results
    .filter(
      ({ series, compare }) => compare[0] === rate && allPeers.some((name) => has(series, nameOf(name))),
    )
    .map(({ title: work, series }) => [
      work,
      ...allPeers.map((name) => {
        const theirs = series.find((one) => one.name === nameOf(name));
        return theirs === undefined ? '' : interval(ratioOf(series[0], theirs, rate));
      }),
    ]);
  return section(title, ['Requests a second, ours over theirs', ...allPeers], rows);
}

function has(series: CaseResult['series'], name: string): boolean {
  return series.some((one) => one.name === name);
}

function medians(values: CaseResult['series'][number]['values'], count: number): string[] {
  return Object.values(values)
    .slice(0, count)
    .map((each) => format(median(each)));
}

/** A heading with its table, or an empty text without rows. */
function section(title: string, header: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const lines = [header, header.map(() => '---'), ...rows];
  return `### ${title}\n\n${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`;
}
