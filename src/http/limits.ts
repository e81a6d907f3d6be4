import { checkRanges, maxTimerMs, type Range } from '../check-range.ts';

export interface ListenerLimits {
  /** Longest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Header lines in a request. */
  readonly maxHeaders: number;
  /** Requests under way at once, exempt ones apart; more are rejected with 503. */
  readonly maxInFlight: number;
  /** A reply of which the client takes nothing for so long is cut, in ms. */
  readonly writeTimeoutMs: number;
}

export const defaultLimits: ListenerLimits = Object.freeze({
  maxBodyBytes: 1024 * 1024,
  maxHeaders: 100,
  maxInFlight: 10_000,
  writeTimeoutMs: 60_000,
});

const ranges: Readonly<Record<keyof ListenerLimits, Range>> = {
  maxBodyBytes: [0, Number.MAX_SAFE_INTEGER],
  maxHeaders: [0, Number.MAX_SAFE_INTEGER],
  maxInFlight: [0, Number.MAX_SAFE_INTEGER],
  writeTimeoutMs: [0, maxTimerMs],
};

/** Throws a RangeError that names the limit. */
export function checkLimits(limits: ListenerLimits): ListenerLimits {
  checkRanges(limits, ranges, 'limits.');
  return Object.freeze(limits);
}
