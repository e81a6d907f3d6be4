/** What came of one offered load. */
export interface Point {
  /** Offered, in capacities. */
  readonly factor: number;
  /** Answered as asked, per second. */
  readonly accepted: number;
  /** Of those, in milliseconds. */
  readonly p99: number;
}

export interface Curve {
  readonly name: string;
  readonly points: readonly Point[];
}

interface Panel {
  readonly title: string;
  readonly left: number;
  readonly max: number;
  readonly ticks: readonly number[];
  readonly unit: string;
  readonly value: (point: Point, curve: Curve) => number;
}

const [width, height, top, bottom, panelWidth] = [760, 300, 54, 250, 290];
const colours = ['#3b7dd8', '#d9822b', '#3a9d5d'];

/** Two panels over the offered load: the share of the peak that is answered, and how late. SVG. */
export function drawCurves(curves: readonly Curve[]): string {
  const worst = Math.max(...curves.flatMap(({ points }) => points.map(({ p99 }) => p99)));
  const step = niceStep(worst / 4);
  const max = Math.max(step, Math.ceil(worst / step) * step);
  const maxFactor = Math.max(...curves.flatMap(({ points }) => points.map(({ factor }) => factor)));
  const panels: readonly Panel[] = [
    {
      title: 'answered, of the peak',
      left: 60,
      max: 100,
      ticks: [0, 25, 50, 75, 90, 100],
      unit: ' %',
      value: ({ accepted }, { points }) =>
        (100 * accepted) / Math.max(...points.map((point) => point.accepted)),
    },
    {
      title: 'p99 of those answered',
      left: 440,
      max,
      ticks: Array.from({ length: Math.round(max / step) + 1 }, (_, i) => i * step),
      unit: ' ms',
      value: ({ p99 }) => p99,
    },
  ];
  const parts = panels.map((panel) => drawPanel(panel, curves, maxFactor));
  const legend = curves.map(({ name }, i) =>
    text(60 + i * 90, 20, name, `fill="${colours[i]}" font-weight="bold"`),
  );
  // Greys that stand out on white and on black.
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img"
  aria-label="Requests answered and their p99 at up to ${maxFactor} times the capacity"
  font-family="system-ui, sans-serif" font-size="12" fill="#808080">
${[...legend, ...parts].join('\n')}
</svg>
`;
}

function drawPanel(panel: Panel, curves: readonly Curve[], maxFactor: number): string {
  const { title, left, max, ticks, unit, value } = panel;
  const x = (factor: number) => round(left + (factor / maxFactor) * panelWidth);
  const y = (of: number) => round(bottom - (of / max) * (bottom - top));
  const grid = ticks.map(
    (tick) =>
      `<path d="M${left} ${y(tick)}h${panelWidth}" stroke="#808080" stroke-opacity=".3"/>
${text(left - 6, y(tick) + 4, `${tick}${unit}`, 'text-anchor="end"')}`,
  );
  const factors = curves[0]?.points.map(({ factor }) => factor) ?? [];
  const axis = factors.map((factor) => text(x(factor), bottom + 18, `${factor}×`, 'text-anchor="middle"'));
  const lines = curves.map((curve, i) => {
    const at = curve.points.map((point) => `${x(point.factor)},${y(value(point, curve))}`);
    return `<polyline points="${at.join(' ')}" fill="none" stroke="${colours[i]}" stroke-width="2.5"/>`;
  });
  const caption = text(
    left + panelWidth / 2,
    bottom + 38,
    'offered load, in capacities',
    'text-anchor="middle"',
  );
  return [text(left, top - 14, title), ...grid, ...axis, ...lines, caption].join('\n');
}

/** The 1, 2 or 5 of a power of ten that is nearest above. */
function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= rough) ?? power;
}

function text(x: number, y: number, content: string, attributes = ''): string {
  return `<text x="${x}" y="${y}" ${attributes}>${content}</text>`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
