import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { testRepository } from '../../../src/conformance/test-repository.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import type { Repository } from '../../../src/domain/repository.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../temporary.ts';

const folder = temporaryFolder();
const newPath = () => join(folder, `${randomUUID()}.db`);
const paths = new WeakMap<Repository, string>();

testRepository(
  'sqlite',
  async (options) => {
    const path = newPath();
    const store = await openSqliteStore(path, options);
    paths.set(store, path);
    return store;
  },
  {
    reopen: (closed) => openSqliteStore(paths.get(closed) ?? ''),
    async countKeys(repository) {
      const db = new DatabaseSync(paths.get(repository) ?? '');
      const row = db.prepare('SELECT count(*) AS count FROM idempotency_keys').get();
      db.close();
      return Number(row?.['count']);
    },
  },
);
testTransfer('sqlite', () => openSqliteStore(newPath()));
