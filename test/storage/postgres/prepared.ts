import type { TestContext } from 'node:test';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import type { TestPostgres } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { closeAfter } from '../../support/close-after.ts';

/**
 * Returns a function that creates a database with the empty tables of a store. It copies one, because creating the
 * tables takes twice the processor time.
 */
export function preparedDatabases(postgres: TestPostgres): () => Promise<string> {
  const prepare = async () => {
    const url = await postgres.createDatabase();
    await (await openPostgresStore(url)).close();
    return url;
  };
  let original: Promise<string> | undefined;
  return async () => {
    original ??= prepare();
    return postgres.createDatabase(await original);
  };
}

/** Returns a function that opens a store and a session in a new database. */
export function storesOf(postgres: TestPostgres) {
  const createDatabase = preparedDatabases(postgres);
  return async (t: TestContext, options?: PostgresStoreOptions) => {
    const url = await createDatabase();
    const store = closeAfter(t, await openPostgresStore(url, options));
    return { store, url, session: await openSession(t, url) };
  };
}
