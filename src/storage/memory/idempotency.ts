import { keyReused } from '../../domain/errors.ts';
import type { Created, CreateOptions } from '../../domain/repository.ts';

/** Makes a creation happen once for a key, until the key expires. A creation without a result is not kept. */
export function createOnce(ttlMs: number, now = Date.now) {
  // Results as JSON, so that later changes cannot modify them; the oldest first.
  const results = new Map<string, { fingerprint: string; result: string; expiresAt: number }>();
  return <T>({ idempotency }: CreateOptions = {}, create: () => T | undefined): Created<T> | undefined => {
    const usedAt = now();
    const kept = idempotency && results.get(idempotency.key);
    if (kept !== undefined && kept.expiresAt > usedAt) {
      if (kept.fingerprint !== idempotency?.fingerprint) throw keyReused();
      return { value: JSON.parse(kept.result), replayed: true };
    }
    const value = create();
    if (value === undefined) return undefined;
    if (idempotency !== undefined) {
      const { key, fingerprint } = idempotency;
      for (const [old, { expiresAt }] of results) {
        if (expiresAt > usedAt) break;
        results.delete(old);
      }
      results.set(key, { fingerprint, result: JSON.stringify(value), expiresAt: usedAt + ttlMs });
    }
    return { value, replayed: false };
  };
}
