import type { Curve } from './case.ts';

export const chartHeight = 250;

const [left, right, top, bottom] = [48, 300, 34, 210];
const colours = ['#1a7f37', '#3b7dd8', '#d9822b', '#a3489c', '#7a7f85'];
const ticks = 4;

/** The curves of one chart over a common x axis, as an SVG group's content. */
export function drawChart(title: string, curves: readonly Curve[]): string {
  const xs = curves[0]?.x ?? [];
  const most = niceCeiling(Math.max(...curves.flatMap(({ y }) => y)));
  const x = (i: number) => round(left + (xs.length < 2 ? 0 : (i / (xs.length - 1)) * (right - left)));
  const y = (value: number) => round(bottom - (value / most) * (bottom - top));
  const grid = Array.from({ length: ticks + 1 }, (_, i) => {
    const value = (most * i) / ticks;
    return `<path class="grid" d="M${left} ${y(value)}H${right}"/>${text(left - 6, y(value) + 4, String(round(value)), 'end')}`;
  });
  // As many labels as there is room for.
  const every = Math.ceil(xs.length / 6);
  const labels = xs.map((label, i) => {
    const isShown = i % every === every - 1;
    const shown = typeof label === 'number' ? String(round(label)) : label;
    return isShown ? text(x(i), bottom + 18, shown, 'middle') : '';
  });
  const lines = curves.map((curve, i) => {
    const points = curve.y.map((value, at) => `${x(at)},${y(value)}`).join(' ');
    const colour = colours[i % colours.length];
    const name = `<text x="${right + 12}" y="${top + 12 + i * 18}" style="fill:${colour}">${curve.line}</text>`;
    return `<polyline points="${points}" fill="none" stroke="${colour}" stroke-width="2"/>${name}`;
  });
  return [`<text class="title" x="0" y="14">${title}</text>`, ...grid, ...labels, ...lines].join('\n');
}

function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.2, 1.6, 2, 4, 6, 8].find((digit) => digit * power >= value) ?? 10) * power;
}

function text(x: number, y: number, content: string, anchor: 'middle' | 'end'): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}">${content}</text>`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
