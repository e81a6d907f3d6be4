import { drawSvg } from '../harness/chart.ts';
import { ours } from './peers.ts';
import type { CaseResult } from './result.ts';
import { median } from './statistics.ts';
import { rate } from './turns.ts';

const rowHeight = 24;
const labelWidth = 150;
const barWidth = 330;
const width = 620;

/** One picture: GET /users/{id} beside the peers with the same features, fastest first. */
export function drawPlot(results: readonly CaseResult[]): string {
  const get = results.find(({ name }) => name === 'get');
  if (get === undefined) throw new Error('--plot draws the case "get": run it');
  const rows = get.series
    .filter(({ name }) => !name.includes(',') && !name.startsWith('node:'))
    .map(({ name, values }) => ({ name, value: median(values[rate] ?? []) }))
    .sort((a, b) => b.value - a.value);
  const most = Math.max(...rows.map(({ value }) => value));
  const bars = rows.map(({ name, value }, i) => {
    const y = 56 + i * rowHeight;
    const length = (value / most) * barWidth;
    return [
      `<text x="${labelWidth - 8}" y="${y + 4}" text-anchor="end">${name}</text>`,
      `<rect class="${name === ours ? 'ours' : 'theirs'}" x="${labelWidth}" y="${y - 8}" width="${length.toFixed(1)}" height="16" rx="2"/>`,
      `<text x="${(labelWidth + length + 6).toFixed(1)}" y="${y + 4}">${Math.round(value).toLocaleString('en')}</text>`,
    ].join('');
  });
  const title = 'GET /users/{id} from SQLite: requests per second on one core';
  const subtitle = 'all with a JSON log line, a histogram, an ETag and a request id for each request';
  const heading = `<text class="title" x="0" y="14">${title}</text><text x="0" y="32">${subtitle}</text>`;
  return drawSvg(title, width, 56 + rows.length * rowHeight, [heading, ...bars]);
}
