// @ts-check

const namespace = 'http://www.w3.org/2000/svg';
const width = 240;
const height = 48;
// Space for half the line width, so that the top of a peak is not cut off.
const inset = 2;

/**
 * Draws series of points into an SVG, with the newest at the right end. The line has a gap at missing values.
 * @param {SVGSVGElement} svg
 * @param {readonly { name: string, values: readonly (number | undefined)[] }[]} series
 * @param {number} slots the number of points that fit into the width
 */
export function drawChart(svg, series, slots) {
  const peak = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const y = (/** @type {number} */ value) =>
    height - inset - (peak === 0 ? 0 : (value / peak) * (height - 2 * inset));
  // Do not draw series of only zeros: a red line would look like failed requests.
  const seen = series.filter(({ values }) => values.some((value) => value !== undefined && value > 0));
  const paths = seen.flatMap(({ name, values }) => {
    const points = values.map((value, i) => ({
      x: width - ((values.length - 1 - i) / (slots - 1)) * width,
      y: value === undefined ? undefined : y(value),
    }));
    return runs(points).flatMap((run) => [area(name, run), line(name, run)]);
  });
  svg.replaceChildren(...paths);
}

/**
 * Splits at the gaps.
 * @param {readonly { x: number, y: number | undefined }[]} points
 * @returns {{ x: number, y: number }[][]}
 */
function runs(points) {
  /** @type {{ x: number, y: number }[][]} */
  const found = [];
  let open = false;
  for (const { x, y } of points) {
    if (y !== undefined) {
      if (!open) found.push([]);
      found.at(-1)?.push({ x, y });
    }
    open = y !== undefined;
  }
  return found;
}

/**
 * @param {string} name
 * @param {readonly { x: number, y: number }[]} run
 */
function line(name, run) {
  // A single point has no length, so draw a short dash.
  const points =
    run.length === 1
      ? run.flatMap(({ x, y }) => [
          { x: x - 2, y },
          { x, y },
        ])
      : run;
  return path(`line ${name}`, `M${points.map(at).join('L')}`);
}

/**
 * @param {string} name
 * @param {readonly { x: number, y: number }[]} run
 */
function area(name, run) {
  return path(`area ${name}`, `M${run[0]?.x ?? 0} ${height}L${run.map(at).join('L')}V${height}Z`);
}

/** @param {{ x: number, y: number }} point */
function at({ x, y }) {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}

/**
 * @param {string} className
 * @param {string} d
 */
function path(className, d) {
  const element = document.createElementNS(namespace, 'path');
  element.setAttribute('class', className);
  element.setAttribute('d', d);
  return element;
}
