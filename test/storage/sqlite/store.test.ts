import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, afterEach, beforeEach, test } from 'node:test';
import type { OpenOptions } from '../../../src/conformance/fixture.ts';
import { testRepository } from '../../../src/conformance/test-repository.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import type { Repository, Store } from '../../../src/domain/repository.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { tables } from '../../../src/storage/tables.ts';
import { closeAfter } from '../../support/close-after.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const folder = temporaryFolder();
const newPath = () => join(folder, `${randomUUID()}.db`);
const paths = new WeakMap<Repository, string>();

function pathOf(repository: Repository): string {
  const path = paths.get(repository);
  assert(path !== undefined, 'the store was opened before');
  return path;
}

/** The stores that tests have left open, and how to close them. Starting the thread of a new one takes longer than most tests. */
const unused = new Map<Store, () => Promise<void>>();
after(() => Promise.all([...unused.values()].map((close) => close())));

let isTestOver = false;
beforeEach(() => {
  isTestOver = false;
});
// Runs before the hooks of the test itself, which close its stores.
afterEach(() => {
  isTestOver = true;
});

async function openEmpty(options: OpenOptions = {}): Promise<Store> {
  const isDefault = Object.keys(options).length === 0;
  const [left] = unused.keys();
  if (isDefault && left !== undefined) {
    unused.delete(left);
    empty(pathOf(left));
    return left;
  }
  const path = newPath();
  const store = await openSqliteStore(path, options);
  paths.set(store, path);
  const { close } = store;
  let isClosed = false;
  return Object.assign(store, {
    async close() {
      if (isDefault && isTestOver && !isClosed) {
        unused.set(store, close);
        return;
      }
      isClosed = true;
      await close();
    },
  });
}

function empty(path: string): void {
  const db = new DatabaseSync(path);
  const filled = ['changes', 'idempotency_keys', ...Object.keys(tables).reverse()];
  db.exec(`
    ${filled.map((table) => `DELETE FROM ${table};`).join(' ')}
    INSERT INTO changes (position, type, time, record, user_id) VALUES (0, '', 0, '', 0);
    UPDATE feed SET gone = 0;
    UPDATE sqlite_sequence SET seq = 0`);
  db.close();
}

testRepository('sqlite', openEmpty, {
  feed: true,
  reopen: (closed) => openSqliteStore(pathOf(closed)),
  async countKeys(repository) {
    const db = new DatabaseSync(pathOf(repository));
    const row = db.prepare('SELECT count(*) AS count FROM idempotency_keys').get();
    db.close();
    return Number(row?.['count']);
  },
});
testTransfer('sqlite', openEmpty);

test('a SQLite store that has just opened does not keep the process alive', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
  const before = timers();
  closeAfter(t, await openSqliteStore(newPath()));
  // A timer of an earlier test may end meanwhile.
  assert.ok(timers() <= before);
});

test('lists of a SQLite store prepare each of their statements once', async (t) => {
  const store = closeAfter(t, await openSqliteStore(newPath()));
  const { mock } = t.mock.method(DatabaseSync.prototype, 'prepare');
  for (const descending of [false, true, false, true]) {
    const sort = [{ field: 'id', descending }] as const;
    await store.users.list({ filter: {}, sort, limit: 1, start: { offset: 0 } });
  }
  assert.equal(mock.callCount(), 2);
});

test('lists of a SQLite store keep 256 statements, so that clients cannot fill the memory with them', async (t) => {
  const store = closeAfter(t, await openSqliteStore(newPath()));
  const { mock } = t.mock.method(DatabaseSync.prototype, 'prepare');
  const list = (number: number) => {
    // A different sort for each number.
    const bits = number.toString(2).padStart(9, '0');
    const sort = [...bits].map((bit) => ({ field: 'id' as const, descending: bit === '1' }));
    return store.users.list({ filter: {}, sort, limit: 1, start: { offset: 0 } });
  };
  for (let number = 0; number < 256; number += 1) await list(number);
  await list(0);
  assert.equal(mock.callCount(), 256);
  await list(256);
  await list(0);
  assert.equal(mock.callCount(), 258);
});

test('a SQLite store keeps an idempotency key until its end, by a clock with fractions of milliseconds', async (t) => {
  let now = 0.5;
  const store = closeAfter(t, await openSqliteStore(newPath(), { now: () => now, idempotencyTtlMs: 1_000 }));
  const idempotency = { key: 'key', fingerprint: '' };
  const replayed: boolean[] = [];
  for (const at of [0.5, 999.5, 1_000]) {
    now = at;
    replayed.push((await store.users.create({ name: 'Ada' }, { idempotency })).replayed);
  }
  assert.deepEqual(replayed, [false, true, false]);
});
