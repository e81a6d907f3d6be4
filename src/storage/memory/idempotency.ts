import { keyReused } from '../../domain/errors.ts';
import { type Created, type CreateOptions, idempotencyTtlMs } from '../../domain/repository.ts';

export interface KeptResultsOptions {
  /** The clock idempotency keys expire by, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
  /** How long an idempotency key is remembered, in milliseconds. Default: a day. */
  readonly idempotencyTtlMs?: number;
}

/** What keyed creations resulted in, for as long as a key is remembered. */
export class KeptResults {
  /** Results as JSON, so that no later change reaches them; the oldest first. */
  readonly #kept = new Map<string, { fingerprint: string; result: string; expiresAt: number }>();
  readonly #now: () => number;
  readonly #ttlMs: number;

  constructor(options: KeptResultsOptions) {
    this.#now = options.now ?? Date.now;
    this.#ttlMs = options.idempotencyTtlMs ?? idempotencyTtlMs;
  }

  /** Creates once for a key. What is `undefined` was not created, and is not kept. */
  once<T>({ idempotency }: CreateOptions = {}, create: () => T): Created<T> {
    if (idempotency === undefined) return { value: create(), replayed: false };
    const { key, fingerprint } = idempotency;
    const now = this.#now();
    const kept = this.#kept.get(key);
    if (kept !== undefined && kept.expiresAt > now) {
      if (kept.fingerprint !== fingerprint) throw keyReused();
      return { value: JSON.parse(kept.result), replayed: true };
    }
    const value = create();
    if (value !== undefined) {
      for (const [old, { expiresAt }] of this.#kept) {
        if (expiresAt > now) break;
        this.#kept.delete(old);
      }
      this.#kept.set(key, { fingerprint, result: JSON.stringify(value), expiresAt: now + this.#ttlMs });
    }
    return { value, replayed: false };
  }
}
