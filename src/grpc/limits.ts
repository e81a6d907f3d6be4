export interface GrpcLimits {
  /** Calls at once on one connection. */
  readonly maxConcurrentStreams: number;
  /** Longest message, in bytes. */
  readonly maxMessageBytes: number;
  /** A connection older than this is asked to end, so that load spreads over new copies, in ms. */
  readonly maxConnectionAgeMs: number;
  /** What its calls have left from then on, in ms. */
  readonly maxConnectionAgeGraceMs: number;
  /** How often a peer is pinged, in ms. */
  readonly keepaliveTimeMs: number;
  /** How long it may take to answer the ping, in ms. */
  readonly keepaliveTimeoutMs: number;
}

export const defaultGrpcLimits: GrpcLimits = Object.freeze({
  maxConcurrentStreams: 250,
  maxMessageBytes: 64 * 1024,
  maxConnectionAgeMs: 30 * 60_000,
  maxConnectionAgeGraceMs: 30_000,
  keepaliveTimeMs: 60_000,
  keepaliveTimeoutMs: 20_000,
});
