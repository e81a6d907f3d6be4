// @ts-check
import { byId } from '../ui/dom.js';
import { formatMs, formatNumber } from '../ui/format.js';
import { drawChart } from './chart.js';
import { latenciesBetween, needed, ratesBetween } from './rates.js';

/** @import { Latencies, Rates } from './rates.js' */
/** @import { Snapshot } from './snapshot.js' */

// Two minutes of charts, at a poll every 2 s.
const slots = 60;
// Rates use several polls, so that single requests do not make them jump. Percentiles use a minute, so that
// a quiet service has enough requests for them.
const ratePolls = 5;
const latencyPolls = 30;
// After a longer pause, such as that of a hidden page, the charts begin again.
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
      const last = snapshots.at(-1);
      if (last !== undefined && snapshot.atMs - last.atMs > longestPauseMs) {
        snapshots.length = 0;
        history.length = 0;
      }
      const rateBase = snapshots.at(-ratePolls) ?? snapshots[0];
      const latencyBase = snapshots[0];
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
  chart('rate', 'Requests per second', history, { 'series-1': 'requests' }, formatNumber);
  chart('latency', 'Latency', history, { 'series-2': 'p99', 'series-1': 'p50' }, formatMs);
  const errors = /** @type {const} */ ({ 'series-2': 'clientErrors', 'series-3': 'serverErrors' });
  chart('error', 'Errors per second', history, errors, formatNumber);
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
 * @param {string} id
 * @param {string} title
 * @param {readonly (Rates & Latencies)[]} history
 * @param {Readonly<Record<string, keyof (Rates & Latencies)>>} series fields by class name
 * @param {(value: number) => string} format
 */
function chart(id, title, history, series, format) {
  const drawn = Object.entries(series).map(([name, field]) => ({
    name,
    values: history.map((figures) => figures[field]),
  }));
  const svg = byId(`${id}-chart`, SVGSVGElement);
  drawChart(svg, drawn, slots);
  const peak = Math.max(0, ...drawn.flatMap(({ values }) => values.map((value) => value ?? 0)));
  setText(`${id}-peak`, peak === 0 ? '' : `peak ${format(peak)}`);
  svg.setAttribute('aria-label', `${title} over the last two minutes, at most ${format(peak)}`);
}

/**
 * @param {string} id
 * @param {string} text
 */
function setText(id, text) {
  byId(id, HTMLElement).textContent = text;
}
