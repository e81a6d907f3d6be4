import { join } from 'node:path';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** Creates a SQLite file of a store without records, in a folder of its own. */
export async function createFile(): Promise<{ folder: string; path: string }> {
  const folder = temporaryFolder();
  const path = join(folder, 'users.db');
  await (await openSqliteStore(path)).close();
  return { folder, path };
}
