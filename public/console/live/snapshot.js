// @ts-check

/** @import { Sample } from './prometheus.js' */

/**
 * The counters of the service at one moment, without the polls of this panel.
 * @typedef {object} Snapshot
 * @property {number} atMs
 * @property {number} requests
 * @property {number} clientErrors responses with 4xx
 * @property {number} serverErrors responses with 5xx
 * @property {ReadonlyMap<number, number>} buckets the number of requests that took at most this many seconds
 */

const probes = ['/health', '/health/ready', '/metrics'];

/**
 * @param {readonly Sample[]} samples
 * @param {number} atMs
 * @returns {Snapshot}
 */
export function takeSnapshot(samples, atMs) {
  const counted = samples.filter(({ labels }) => !probes.includes(labels['route'] ?? ''));
  const requests = counted.filter(({ name }) => name === 'users_service_requests_total');
  const ofClass = (/** @type {string} */ first) =>
    sum(requests.filter(({ labels }) => labels['status']?.startsWith(first)));
  /** @type {Map<number, number>} */
  const buckets = new Map();
  for (const { name, labels, value } of counted) {
    if (name !== 'users_service_request_duration_seconds_bucket') continue;
    const bound = labels['le'] === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels['le']);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return { atMs, requests: sum(requests), clientErrors: ofClass('4'), serverErrors: ofClass('5'), buckets };
}

/** @param {readonly Sample[]} samples */
function sum(samples) {
  return samples.reduce((total, { value }) => total + value, 0);
}
