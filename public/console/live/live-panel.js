// @ts-check
import { byId } from '../ui/dom.js';
import { formatMs, formatNumber } from '../ui/format.js';
import { drawChart } from './chart.js';
import { pollWhileVisible } from './poll.js';
import { probe } from './probes.js';
import { parseMetrics } from './prometheus.js';
import { ratesBetween } from './rates.js';
import { takeSnapshot } from './snapshot.js';

/** @import { ApiKey } from '../api/api-key.js' */
/** @import { Connection } from '../api/connection.js' */
/** @import { Rates } from './rates.js' */
/** @import { Snapshot } from './snapshot.js' */

const pauseMs = 2_000;
// Two minutes of charts.
const slots = 60;
// Figures over a few polls: one request more or less must not make them jump.
const windowPolls = 5;

/**
 * Health, readiness, and what /metrics tells, while the page is to be seen.
 * @param {{ connection: Connection, apiKey: ApiKey }} parts
 */
export function createLivePanel({ connection, apiKey }) {
  /** @type {Snapshot[]} */
  const snapshots = [];
  /** @type {Rates[]} */
  const history = [];

  async function poll() {
    if (connection.isAway) return;
    const [health, ready, metrics] = await Promise.all(
      ['health', 'health/ready', 'metrics'].map((path) => probe(path, apiKey.value)),
    );
    showCheck('live-health', health?.status, 'Healthy', 'Failing');
    showCheck('live-ready', ready?.status, 'Ready', 'Not ready');
    if (health === undefined) return connection.lost();
    if (metrics !== undefined) takeMetrics(metrics);
  }

  /** @param {{ status: number, text: string }} metrics */
  function takeMetrics({ status, text }) {
    byId('live-note', HTMLElement).textContent = noteFor(status);
    if (status !== 200) return;
    const snapshot = takeSnapshot(parseMetrics(text), performance.now());
    const oldest = snapshots.at(-windowPolls) ?? snapshots[0];
    snapshots.push(snapshot);
    if (snapshots.length > windowPolls) snapshots.shift();
    if (oldest === undefined) return;
    history.push(ratesBetween(oldest, snapshot));
    if (history.length > slots) history.shift();
    render(history);
  }

  connection.addEventListener('away', () => {
    showCheck('live-health', undefined, '', '');
    showCheck('live-ready', undefined, '', '');
  });
  connection.addEventListener('back', poll);
  apiKey.addEventListener('change', poll);
  pollWhileVisible(poll, pauseMs);
}

/** @param {number} status */
function noteFor(status) {
  if (status === 200) return 'Figures of the last two minutes, every 2 s.';
  return status === 401 ? 'The figures need an API key.' : `No figures: /metrics answered ${status}.`;
}

/**
 * @param {string} id
 * @param {number | undefined} status
 * @param {string} good
 * @param {string} bad
 */
function showCheck(id, status, good, bad) {
  const place = byId(id, HTMLElement);
  const text = status === undefined ? 'No answer' : status === 200 ? good : bad;
  place.dataset['state'] = status === 200 ? 'good' : 'bad';
  // The same text again would be read out again.
  if (place.textContent !== text) place.textContent = text;
}

/** @param {readonly Rates[]} history */
function render(history) {
  const last = history.at(-1);
  if (last === undefined) return;
  setText('rate-value', formatNumber(last.requests));
  setText('p50-value', last.p50 === undefined ? '–' : formatMs(last.p50));
  setText('p99-value', last.p99 === undefined ? '–' : formatMs(last.p99));
  setText('client-error-value', formatNumber(last.clientErrors));
  setText('server-error-value', formatNumber(last.serverErrors));
  chart('rate', 'Requests per second', history, [['series-1', 'requests']], formatNumber);
  chart(
    'latency',
    'Latency',
    history,
    [
      ['series-2', 'p99'],
      ['series-1', 'p50'],
    ],
    formatMs,
  );
  chart(
    'error',
    'Errors per second',
    history,
    [
      ['series-2', 'clientErrors'],
      ['series-3', 'serverErrors'],
    ],
    formatNumber,
  );
}

/**
 * @param {string} id
 * @param {string} title
 * @param {readonly Rates[]} history
 * @param {readonly (readonly [className: string, field: keyof Rates])[]} series
 * @param {(value: number) => string} format
 */
function chart(id, title, history, series, format) {
  const drawn = series.map(([name, field]) => ({ name, values: history.map((rates) => rates[field]) }));
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
