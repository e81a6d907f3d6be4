import { invalid } from '../domain/errors.ts';
import type { Store } from '../domain/repository.ts';
import type { MemoryStoreOptions } from './memory/store.ts';
import type { PostgresStoreOptions } from './postgres/store.ts';
import type { SqliteStoreOptions } from './sqlite/store.ts';

/** The options of all stores; each takes those it knows. */
export type StoreOptions = MemoryStoreOptions & SqliteStoreOptions & PostgresStoreOptions;

/**
 * Opens the store that a URL names: `memory:`, `sqlite:PATH` (relative, or absolute as in
 * `sqlite:/var/lib/users.db` and `sqlite:///var/lib/users.db`) or `postgres://USER@HOST/NAME`.
 * Each store is loaded when it is asked for, so that none pays for another.
 */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  if (url === 'memory:') {
    const { createMemoryStore } = await import('./memory/store.ts');
    return createMemoryStore(options);
  }
  const path = sqlitePath(url);
  if (path !== undefined) {
    const { openSqliteStore } = await import('./sqlite/store.ts');
    return openSqliteStore(path, options);
  }
  if (/^postgres(ql)?:\/\/./.test(url)) {
    const { openPostgresStore } = await import('./postgres/store.ts');
    return openPostgresStore(url, options);
  }
  // Not a word of the URL: what is wrong with it may be that its password is in the wrong place.
  throw invalid('the database URL', 'must be memory:, sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME');
}

/** The path of a `sqlite:` URL, taken as it is written: neither percent-decoded nor cut at a question mark. */
export function sqlitePath(url: string): string | undefined {
  if (!url.startsWith('sqlite:')) return undefined;
  const rest = url.slice('sqlite:'.length);
  // An authority is no part of a file's address; two slashes before a relative path are a slip.
  const path = rest.startsWith('///') ? rest.slice(2) : rest.startsWith('//') ? '' : rest;
  // SQLite's name for a database in memory, which each connection would have to itself.
  return path === '' || path === ':memory:' ? undefined : path;
}
