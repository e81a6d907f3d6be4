import { chartHeight, drawChart, drawSvg, place, chartWidth as width } from '../harness/chart.ts';
import type { CaseResult } from './case.ts';
import { median } from './statistics.ts';

const rowHeight = 22;
const titleHeight = 34;
const labelWidth = 165;
const barWidth = 180;
const columns = 2;
const gap = 24;

/** The medians of all cases that have rivals, as bars: one panel a case, the service first. Then the curves. */
export function drawPlot(results: readonly CaseResult[]): string {
  const shown = results.filter(({ series, better, curves }) => {
    return better === 'more' && series.length > 1 && curves === undefined;
  });
  let y = 30;
  const panels = [
    '<text class="title" x="0" y="12">Requests per second; workers and PostgreSQL on both cores, all others on one</text>',
  ];
  for (let first = 0; first < shown.length; first += columns) {
    const row = shown.slice(first, first + columns);
    for (const [i, result] of row.entries()) {
      panels.push(place(i * (width + gap), y, panel(result)));
    }
    y += Math.max(...row.map(({ series }) => titleHeight + series.length * rowHeight)) + gap;
  }
  const charts = Object.entries(
    Object.groupBy(
      results.flatMap(({ curves = [] }) => curves),
      ({ chart }) => chart,
    ),
  );
  for (const [i, [title, curves = []]] of charts.entries()) {
    panels.push(place((i % columns) * (width + gap), y, drawChart(title, curves)));
    if (i % columns === columns - 1 || i === charts.length - 1) y += chartHeight + gap;
  }
  const fullWidth = columns * width + (columns - 1) * gap;
  return drawSvg('Requests per second of users-service and its peers', fullWidth, y, panels);
}

function panel({ title, series }: CaseResult): string {
  const values = series.map((one) => median(one.values));
  const most = Math.max(...values);
  const rows = series.map(({ name }, i) => {
    const value = values[i] ?? 0;
    const y = titleHeight + i * rowHeight;
    const length = Math.max(1, (value / most) * barWidth);
    return [
      `<text x="${labelWidth - 8}" y="${y + 4}" text-anchor="end">${escapeText(name)}</text>`,
      `<rect class="${i === 0 ? 'ours' : 'theirs'}" x="${labelWidth}" y="${y - 8}" width="${length.toFixed(1)}" height="16" rx="2"/>`,
      `<text x="${(labelWidth + length + 6).toFixed(1)}" y="${y + 4}">${Math.round(value).toLocaleString('en')}</text>`,
    ].join('');
  });
  return `<text class="title" x="0" y="14">${escapeText(title)}</text>${rows.join('')}`;
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
