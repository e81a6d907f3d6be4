// @ts-check
import { byId } from '../ui/dom.js';
import { formatMs, formatNumber } from '../ui/messages.js';
import { latenciesBetween, needed, ratesBetween } from './metrics.js';

/** @import { Latencies, Rates, Snapshot } from './metrics.js' */

// The number of points in a chart: two minutes, at a poll every 2 s.
const slots = 60;
// Rates use several polls, so that single requests do not make them jump. Percentiles use a minute, so that
// a quiet service has enough requests for them.
const ratePolls = 5;
const latencyPolls = 30;
// After a longer pause, such as that of a hidden page or a sleeping computer, the charts begin again.
const longestPauseMs = 15_000;

/** The figures and charts, made from a series of snapshots. */
export function createFigures() {
  /** @type {Snapshot[]} */
  const snapshots = [];
  /** @type {(Rates & Latencies)[]} */
  const history = [];

  return {
    /** @param {Snapshot} snapshot */
    add(snapshot) {
      const pauseMs = snapshot.atMs - (snapshots.at(-1)?.atMs ?? snapshot.atMs);
      if (pauseMs <= 0 || pauseMs > longestPauseMs) {
        snapshots.length = 0;
        history.length = 0;
      }
      // Another copy of the service may have responded to the last poll, with counters of its own.
      const ofCopy = snapshots.filter(({ startedAt }) => startedAt === snapshot.startedAt);
      const [latencyBase] = ofCopy;
      const rateBase = ofCopy.at(-ratePolls) ?? latencyBase;
      snapshots.push(snapshot);
      if (snapshots.length > latencyPolls) snapshots.shift();
      if (rateBase === undefined || latencyBase === undefined) return;
      const latencies = latenciesBetween(latencyBase, snapshot);
      history.push({ ...latencies, ...ratesBetween(rateBase, snapshot) });
      if (history.length > slots) history.shift();
      render(history);
      showNeed(latencies);
    },
  };
}

/** @param {readonly (Rates & Latencies)[]} history */
function render(history) {
  const last = history.at(-1);
  if (last === undefined) return;
  setText('rate-value', formatNumber(last.requests));
  setText('p50-value', last.p50 === undefined ? '–' : formatMs(last.p50));
  setText('p99-value', last.p99 === undefined ? '–' : formatMs(last.p99));
  setText('client-error-value', formatNumber(last.clientErrors));
  setText('server-error-value', formatNumber(last.serverErrors));
  showChart('rate', 'Requests per second', history, { 'series-1': 'requests' }, formatNumber);
  showChart('latency', 'Latency', history, { 'series-2': 'p99', 'series-1': 'p50' }, formatMs);
  const errors = /** @type {const} */ ({ 'series-2': 'clientErrors', 'series-3': 'serverErrors' });
  showChart('error', 'Errors per second', history, errors, formatNumber);
}

/**
 * Shows how many requests are missing for the percentiles.
 * @param {Latencies} latencies
 */
function showNeed({ timed }) {
  const lacking = timed < needed.p50 ? 'p50' : timed < needed.p99 ? 'p99' : undefined;
  const text = lacking && `${lacking} needs ${needed[lacking]} requests a minute, has ${timed}`;
  setText('latency-need', text ?? '');
}

/**
 * Draws one chart, and shows its peak.
 * @param {string} id
 * @param {string} title
 * @param {readonly (Rates & Latencies)[]} history
 * @param {Readonly<Record<string, keyof (Rates & Latencies)>>} series fields by class name
 * @param {(value: number) => string} format
 */
function showChart(id, title, history, series, format) {
  const drawn = Object.entries(series).map(([name, field]) => ({
    name,
    values: history.map((figures) => figures[field]),
  }));
  const svg = byId(`${id}-chart`, SVGSVGElement);
  const peak = drawChart(svg, drawn);
  setText(`${id}-peak`, peak === 0 ? '' : `peak ${format(peak)}`);
  const hasValues = drawn.some(({ values }) => values.some((value) => value !== undefined));
  const limit = hasValues ? `, at most ${format(peak)}` : '';
  svg.setAttribute('aria-label', `${title} over the last two minutes${limit}`);
}

/**
 * @param {string} id
 * @param {string} text
 */
function setText(id, text) {
  byId(id, HTMLElement).textContent = text;
}

const namespace = 'http://www.w3.org/2000/svg';
const chartWidth = 240;
const chartHeight = 48;
// Space for half the line width, so that the top of a peak is not cut off.
const inset = 2;

/**
 * Draws series of points into an SVG, with the newest at the right end. The line has a gap at missing values.
 * @param {SVGSVGElement} svg
 * @param {readonly { name: string, values: readonly (number | undefined)[] }[]} series
 * @returns {number} the highest value
 */
function drawChart(svg, series) {
  const peak = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const y = (/** @type {number} */ value) =>
    chartHeight - inset - (peak === 0 ? 0 : (value / peak) * (chartHeight - 2 * inset));
  // Do not draw series of only zeros: a red line would look like failed requests.
  const seen = series.filter(({ values }) => values.some((value) => value !== undefined && value > 0));
  const paths = seen.flatMap(({ name, values }) => {
    const points = values.map((value, i) => ({
      x: chartWidth - ((values.length - 1 - i) / (slots - 1)) * chartWidth,
      y: value === undefined ? undefined : y(value),
    }));
    return runs(points).flatMap((run) => [area(name, run), line(name, run)]);
  });
  svg.replaceChildren(...paths);
  return peak;
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
  const dash = run.length === 1 ? run.map(({ x, y }) => ({ x: x - 2, y })) : [];
  return path(`line ${name}`, `M${[...dash, ...run].map(at).join('L')}`);
}

/**
 * @param {string} name
 * @param {readonly { x: number, y: number }[]} run
 */
function area(name, run) {
  return path(`area ${name}`, `M${run[0]?.x ?? 0} ${chartHeight}L${run.map(at).join('L')}V${chartHeight}Z`);
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
