// @ts-check

/**
 * @typedef {object} Sample
 * @property {string} name
 * @property {Readonly<Record<string, string>>} labels
 * @property {number} value
 */

const linePattern = /^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/;
const labelPattern = /\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)/gy;

/**
 * Parses the Prometheus text format 0.0.4. Unknown lines are ignored.
 * @param {string} text
 * @returns {Sample[]}
 */
export function parseMetrics(text) {
  /** @type {Sample[]} */
  const samples = [];
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name, labels, number] = linePattern.exec(line) ?? [];
    if (name === undefined || number === undefined) continue;
    samples.push({
      name,
      labels: parseLabels(labels ?? ''),
      value: Number(number.replace('Inf', 'Infinity')),
    });
  }
  return samples;
}

/** @param {string} text */
function parseLabels(text) {
  /** @type {Record<string, string>} */
  const labels = {};
  for (const [, name, value] of text.matchAll(labelPattern)) {
    if (name !== undefined && value !== undefined) labels[name] = unescapeLabel(value);
  }
  return labels;
}

/** @param {string} value */
function unescapeLabel(value) {
  return value.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));
}

/**
 * The counters of the service at one moment, without the polls of this panel.
 * @typedef {object} Snapshot
 * @property {number} atMs by the clock of this computer, which may be set back
 * @property {number | undefined} startedAt the start of the process that has counted, in seconds since 1970; each copy
 *   of the service has its own
 * @property {number} requests
 * @property {number} clientErrors responses with 4xx
 * @property {number} serverErrors responses with 5xx
 * @property {ReadonlyMap<number, number>} buckets the number of requests that took at most this many seconds
 */

// Also the health checks of gRPC.
const probeRoutes = /^\/(health(\/ready)?$|metrics$|grpc\.)/;

/**
 * @param {readonly Sample[]} samples
 * @param {number} atMs
 * @returns {Snapshot}
 */
export function takeSnapshot(samples, atMs) {
  const counted = samples.filter(({ labels }) => !probeRoutes.test(labels['route'] ?? ''));
  const requests = counted.filter(({ name }) => name === 'users_service_requests_total');
  // The status codes of gRPC have one or two digits.
  const ofClass = (/** @type {RegExp} */ statuses) =>
    sum(requests.filter(({ labels }) => statuses.test(labels['status'] ?? '')));
  /** @type {Map<number, number>} */
  const buckets = new Map();
  for (const { name, labels, value } of counted) {
    if (name !== 'users_service_request_duration_seconds_bucket') continue;
    const bound = labels['le'] === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels['le']);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return {
    atMs,
    startedAt: samples.find(({ name }) => name === 'users_service_start_time_seconds')?.value,
    requests: sum(requests),
    clientErrors: ofClass(/^4..$/),
    serverErrors: ofClass(/^5..$/),
    buckets,
  };
}

/** @param {readonly Sample[]} samples */
function sum(samples) {
  return samples.reduce((total, { value }) => total + value, 0);
}

/**
 * The rates between two snapshots, per second.
 * @typedef {{ requests: number, clientErrors: number, serverErrors: number }} Rates
 */

/**
 * The response times between two snapshots, in ms, or `undefined` if there were too few requests.
 * @typedef {{ timed: number, p50: number | undefined, p99: number | undefined }} Latencies
 */

/** The number of requests that a percentile needs, so that at least one is above it. */
export const needed = { p50: 10, p99: 100 };

/**
 * @param {Snapshot} before
 * @param {Snapshot} after
 * @returns {Rates}
 */
export function ratesBetween(before, after) {
  const seconds = (after.atMs - before.atMs) / 1000;
  const rate = (/** @type {'requests' | 'clientErrors' | 'serverErrors'} */ name) =>
    Math.max(0, after[name] - before[name]) / seconds;
  return {
    requests: rate('requests'),
    clientErrors: rate('clientErrors'),
    serverErrors: rate('serverErrors'),
  };
}

/**
 * @param {Snapshot} before
 * @param {Snapshot} after
 * @returns {Latencies}
 */
export function latenciesBetween(before, after) {
  const buckets = [...after.buckets]
    .map(([bound, count]) => ({ bound, count: Math.max(0, count - (before.buckets.get(bound) ?? 0)) }))
    .sort((a, b) => a.bound - b.bound);
  const timed = buckets.at(-1)?.count ?? 0;
  return {
    timed,
    p50: timed < needed.p50 ? undefined : quantileMs(buckets, 0.5),
    p99: timed < needed.p99 ? undefined : quantileMs(buckets, 0.99),
  };
}

/**
 * The quantile of a cumulative histogram, computed like histogram_quantile of Prometheus: linear within a
 * bucket, and the last bound for all values above it.
 * @param {readonly { bound: number, count: number }[]} buckets by rising bound, the last one infinite
 * @param {number} quantile
 * @returns {number | undefined}
 */
function quantileMs(buckets, quantile) {
  const rank = quantile * (buckets.at(-1)?.count ?? 0);
  const index = buckets.findIndex(({ count }) => count >= rank);
  const found = buckets[index];
  const below = index > 0 ? buckets[index - 1] : { bound: 0, count: 0 };
  if (found === undefined || below === undefined) return undefined;
  if (found.bound === Number.POSITIVE_INFINITY) return below.bound * 1000;
  const share = (rank - below.count) / (found.count - below.count);
  return (below.bound + (found.bound - below.bound) * share) * 1000;
}
