import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import type { TestPostgres } from '../../kit/postgres.ts';

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
