import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { dataFile } from '../../scripts/bench/data.ts';
import { makeDatabase } from '../../scripts/harness/offer.ts';
import { openSqliteStore } from '../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../support/temporary.ts';

test('the databases of the benchmark and of the harnesses have as many users as they should', async (t) => {
  const folder = temporaryFolder();
  const file = join(folder, 'harness.db');
  await makeDatabase(file, 25);
  for (const path of [file, await dataFile(folder, 25, 3)]) {
    const store = await openSqliteStore(path);
    t.after(() => store.close());
    assert.equal(await store.users.count({}), 25);
  }
});
