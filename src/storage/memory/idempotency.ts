import { keyReused } from '../../domain/errors.ts';
import { type Created, type CreateOptions, idempotencyTtlMs } from '../../domain/repository.ts';

export interface KeptResultsOptions {
  /** The clock by which idempotency keys expire, in milliseconds. Default: `Date.now`. */
  readonly now?: () => number;
  /** How long an idempotency key is kept, in milliseconds. Default: a day. */
  readonly idempotencyTtlMs?: number;
}

/** The results of creations with a key, until the key expires. */
export class KeptResults {
  /** Results as JSON, so that later changes cannot modify them; the oldest first. */
  readonly #kept = new Map<string, { fingerprint: string; result: string; expiresAt: number }>();
  readonly #now: () => number;
  readonly #ttlMs: number;

  constructor(options: KeptResultsOptions) {
    this.#now = options.now ?? Date.now;
    this.#ttlMs = options.idempotencyTtlMs ?? idempotencyTtlMs;
  }

  /** Creates a record once for a key. An `undefined` result means that nothing was created, and is not kept. */
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
