import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openStore } from '../../src/storage/open.ts';
import { fromNames, tables } from '../../src/storage/tables.ts';
import { temporaryFolder } from './temporary.ts';

const folder = temporaryFolder();
const query = {
  filter: {},
  sort: [{ field: 'id', descending: false }] as const,
  limit: 20,
  start: { offset: 0 },
};

describe('a store that responds at once', () => {
  it('does not read the signal of a caller unless it is aborted', async (t) => {
    const store = await openStore(`sqlite:${folder}/signal.db`);
    t.after(() => store.close());
    const options = {
      isAborted: false,
      get signal(): AbortSignal {
        throw new Error('the signal was read');
      },
    };
    assert.equal(store.getUser(1, options), undefined);
    assert.equal(store.getPost(1, 1, options), undefined);
    assert.deepEqual((await store.listUsers(query, options)).items, []);
  });

  it('rejects a call whose signal is already aborted', async (t) => {
    const store = await openStore('memory:');
    t.after(() => store.close());
    const options = { isAborted: true, signal: AbortSignal.abort() };
    await assert.rejects(async () => store.getUser(1, options), { kind: 'cancelled' });
  });
});

describe('a record as it was stored before a column was added', () => {
  it('does not have the new field', () => {
    const row = { id: 1, name: 'Ada', version: 1 };
    assert.deepEqual(fromNames(tables.users.columns, row), row);
  });
});
