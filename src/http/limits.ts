export interface ListenerLimits {
  /** Longest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Header lines in a request. */
  readonly maxHeaders: number;
  /** Requests under way at once, vital ones apart; more are refused with 503. */
  readonly maxInFlight: number;
  /** A reply of which the client takes nothing for so long is cut, in ms. */
  readonly writeTimeoutMs: number;
}

export const defaultLimits: ListenerLimits = Object.freeze({
  maxBodyBytes: 1024 * 1024,
  maxHeaders: 100,
  maxInFlight: 1_000,
  writeTimeoutMs: 60_000,
});

/** Throws a RangeError that names the limit. */
export function checkLimits(limits: ListenerLimits): ListenerLimits {
  for (const [name, value] of Object.entries(limits)) {
    // NaN and undefined compare as no bound at all.
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`limits.${name} must be a whole number from 0, not ${value}`);
    }
  }
  return Object.freeze(limits);
}
