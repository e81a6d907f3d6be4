// @ts-check

/** @import { Snapshot } from './snapshot.js' */

/**
 * What happened between two snapshots; latencies in ms, `undefined` without requests.
 * @typedef {object} Rates
 * @property {number} requests per second
 * @property {number} clientErrors per second
 * @property {number} serverErrors per second
 * @property {number | undefined} p50
 * @property {number | undefined} p99
 */

/**
 * @param {Snapshot} before
 * @param {Snapshot} after
 * @returns {Rates}
 */
export function ratesBetween(before, after) {
  const seconds = (after.atMs - before.atMs) / 1000;
  // A counter that went down began anew with the process: all of it came since.
  const restarted = after.requests < before.requests;
  const rate = (/** @type {'requests' | 'clientErrors' | 'serverErrors'} */ name) =>
    Math.max(0, after[name] - (restarted ? 0 : before[name])) / seconds;
  const buckets = [...after.buckets]
    .map(([bound, count]) => ({ bound, count: count - (restarted ? 0 : (before.buckets.get(bound) ?? 0)) }))
    .sort((a, b) => a.bound - b.bound);
  return {
    requests: rate('requests'),
    clientErrors: rate('clientErrors'),
    serverErrors: rate('serverErrors'),
    p50: quantileMs(buckets, 0.5),
    p99: quantileMs(buckets, 0.99),
  };
}

/**
 * The quantile of a cumulative histogram as Prometheus' histogram_quantile has it: evenly spread
 * within its bucket, and beyond the last bound, that bound.
 * @param {readonly { bound: number, count: number }[]} buckets by rising bound, the last one infinite
 * @param {number} quantile
 * @returns {number | undefined}
 */
function quantileMs(buckets, quantile) {
  const total = buckets.at(-1)?.count ?? 0;
  if (total <= 0) return undefined;
  const rank = quantile * total;
  const index = buckets.findIndex(({ count }) => count >= rank);
  const found = buckets[index];
  const below = index > 0 ? buckets[index - 1] : { bound: 0, count: 0 };
  if (found === undefined || below === undefined) return undefined;
  if (found.bound === Number.POSITIVE_INFINITY) return below.bound * 1000;
  const share = (rank - below.count) / (found.count - below.count);
  return (below.bound + (found.bound - below.bound) * share) * 1000;
}
