import type { DatabaseSync } from 'node:sqlite';
import { keyInUse, keyReused } from '../../domain/errors.ts';
import type { Created, CreateOptions, IdempotencyKey } from '../../domain/repository.ts';

/** A key for the writer thread, with the time of its use. */
export interface TimedKey extends IdempotencyKey {
  readonly now: number;
  readonly expiresAt: number;
}

export interface KeyOptions {
  readonly now: () => number;
  readonly idempotencyTtlMs: number;
}

/**
 * Rejects a key whose first request is still running in this process. If it runs in another process, the second
 * request waits for the lock.
 */
export function keysInUse({ now, idempotencyTtlMs }: KeyOptions) {
  const inUse = new Set<string>();
  return async <T>(
    { idempotency }: CreateOptions = {},
    create: (key?: TimedKey) => Promise<T>,
  ): Promise<T> => {
    if (idempotency === undefined) return create();
    const { key, fingerprint } = idempotency;
    if (inUse.has(key)) throw keyInUse();
    inUse.add(key);
    try {
      const usedAt = Math.floor(now());
      return await create({ key, fingerprint, now: usedAt, expiresAt: usedAt + idempotencyTtlMs });
    } finally {
      inUse.delete(key);
    }
  };
}

// Ten for each added key: the table shrinks after a burst, without a slow single write.
const expiredKeysPerWrite = 10;

/**
 * Makes a creation happen once for a key, in the transaction of its insert. An `undefined` result means that nothing
 * was created.
 */
export function createOnce(db: DatabaseSync) {
  const find = db.prepare(
    'SELECT fingerprint, response FROM idempotency_keys WHERE key = ? AND expires_at > ?',
  );
  const keep = db.prepare(
    'INSERT OR REPLACE INTO idempotency_keys (key, fingerprint, response, expires_at) VALUES (?, ?, ?, ?)',
  );
  const dropExpired = db.prepare(`
    DELETE FROM idempotency_keys WHERE rowid IN (
      SELECT rowid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ${expiredKeysPerWrite})`);

  return <T>({ key, fingerprint, now, expiresAt }: TimedKey, create: () => T): Created<T> => {
    const kept = find.get(key, now);
    if (kept !== undefined) {
      if (kept['fingerprint'] !== fingerprint) throw keyReused();
      // A process of an earlier release stored posts without a version.
      return { value: { version: 1, ...JSON.parse(String(kept['response'])) }, replayed: true };
    }
    const value = create();
    if (value !== undefined) {
      dropExpired.run(now);
      keep.run(key, fingerprint, JSON.stringify(value), expiresAt);
    }
    return { value, replayed: false };
  };
}
