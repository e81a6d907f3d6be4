import { drawSvg } from '../harness/chart.ts';
import { pairedRatio } from '../harness/statistics.ts';
import { ours } from './peers.ts';
import type { CaseResult } from './result.ts';
import { rate } from './turns.ts';

const rowHeight = 24;
const labelWidth = 150;
const barWidth = 330;
const width = 540;
const top = 56;

/** Draws GET /users/{id} of the service and the peers with the same features, fastest first, with intervals. */
export function drawPlot(results: readonly CaseResult[]): string {
  const get = results.find(({ name }) => name === 'get');
  if (get === undefined) throw new Error('the picture needs the case "get": run it');
  const own = get.series[0]?.values[rate] ?? [];
  const rows = get.series
    .filter(({ name }) => !name.includes(',') && !name.startsWith('node:'))
    .map(({ name, values }) => ({ name, ...pairedRatio(values[rate] ?? [], own) }))
    .sort((a, b) => b.value - a.value);
  const most = Math.max(...rows.map(({ high }) => high));
  const x = (value: number) => (labelWidth + (value / most) * barWidth).toFixed(1);
  const bars = rows.map(({ name, value, low, high }, i) => {
    const y = top + i * rowHeight;
    const kind = name === ours ? 'ours' : 'theirs';
    return [
      `<text x="${labelWidth - 8}" y="${y + 4}" text-anchor="end">${name}</text>`,
      `<rect class="${kind}" x="${labelWidth}" y="${y - 8}" width="${((value / most) * barWidth).toFixed(1)}" height="16" rx="2"/>`,
      `<path stroke="#808080" d="M${x(low)} ${y}H${x(high)}"/>`,
      `<text x="${labelWidth + barWidth + 10}" y="${y + 4}">${Math.round(value * 100)} %</text>`,
    ].join('');
  });
  const title = 'Requests per second on one core: GET /users/{id} from SQLite';
  const subtitle = 'each with a JSON log line, a histogram, an ETag and a request id for each request';
  const heading = `<text class="title" x="0" y="14">${title}</text><text x="0" y="32">${subtitle}</text>`;
  return drawSvg(title, width, top + rows.length * rowHeight, [heading, ...bars]);
}
