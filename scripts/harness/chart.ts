/** A line of a chart. */
export interface Line {
  readonly line: string;
  /** The labels or numbers on the x axis, at equal distances. */
  readonly x: readonly (string | number)[];
  readonly y: readonly number[];
}

export const chartWidth = 440;
export const chartHeight = 250;

const style = `
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600; font-size: 13px }
  .grid { stroke: #808080; stroke-opacity: .3 }
  .ours { fill: #1a7f37 }
  .theirs { fill: #afb8c1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .ours { fill: #3fb950 }
    .theirs { fill: #57606a }
  }`;

const [left, right, top, bottom] = [48, 300, 34, 210];
const colours = ['#1a7f37', '#3b7dd8', '#d9822b', '#a3489c', '#7a7f85'];
const ticks = 4;
const maxLabels = 6;

/** A picture that is readable on a white and on a black background. */
export function drawSvg(title: string, width: number, height: number, parts: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${title}</title>
<style>${style}
</style>
${parts.join('\n')}
</svg>
`;
}

export function place(x: number, y: number, content: string): string {
  return `<g transform="translate(${x} ${y})">${content}</g>`;
}

/** Lines over a common x axis. */
export function drawChart(title: string, curves: readonly Line[]): string {
  const xs = curves[0]?.x ?? [];
  const most = niceCeiling(Math.max(...curves.flatMap(({ y }) => y)));
  const x = (i: number) => round(left + (xs.length < 2 ? 0 : (i / (xs.length - 1)) * (right - left)));
  const y = (value: number) => round(bottom - (value / most) * (bottom - top));
  const grid = Array.from({ length: ticks + 1 }, (_, i) => {
    const value = (most * i) / ticks;
    return `<path class="grid" d="M${left} ${y(value)}H${right}"/>${text(left - 6, y(value) + 4, String(round(value)), 'end')}`;
  });
  // As many labels as fit, with round numbers.
  const every = Math.ceil(xs.length / maxLabels);
  const range = Number(xs.at(-1)) - Number(xs[0]);
  const step = [1, 2, 5, 10, 20, 50].find((one) => range / one <= maxLabels) ?? 100;
  const labels = xs.flatMap((label, i) => {
    const isShown = typeof label === 'number' ? label % step === 0 : i % every === every - 1;
    return isShown ? [text(x(i), bottom + 18, String(label), 'middle')] : [];
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
