// @ts-check

/** @import { Snapshot } from './snapshot.js' */

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
  const restarted = hasRestarted(before, after);
  const rate = (/** @type {'requests' | 'clientErrors' | 'serverErrors'} */ name) =>
    Math.max(0, after[name] - (restarted ? 0 : before[name])) / seconds;
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
  const restarted = hasRestarted(before, after);
  const buckets = [...after.buckets]
    .map(([bound, count]) => ({ bound, count: count - (restarted ? 0 : (before.buckets.get(bound) ?? 0)) }))
    .sort((a, b) => a.bound - b.bound);
  const timed = buckets.at(-1)?.count ?? 0;
  return {
    timed,
    p50: timed < needed.p50 ? undefined : quantileMs(buckets, 0.5),
    p99: timed < needed.p99 ? undefined : quantileMs(buckets, 0.99),
  };
}

/**
 * Whether a new process has started. Its counters begin at 0.
 * @param {Snapshot} before
 * @param {Snapshot} after
 */
function hasRestarted(before, after) {
  return after.requests < before.requests;
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
