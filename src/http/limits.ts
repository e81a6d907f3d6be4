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
