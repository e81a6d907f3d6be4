import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { addUsers, rejects } from '../../../src/conformance/fixture.ts';
import { addSample, feedOf, firstChanges, idsOf, readAll } from '../../../src/conformance/follow.ts';
import { byKind } from '../../../src/domain/record.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { changeLog, sqliteFeed } from '../../../src/storage/sqlite/changes.ts';
import { connect, migrate } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/storage/sqlite/store.ts';
import { backupSqlite } from '../../../src/storage/sqlite/tools.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { checkFeed, followTogether, type RandomLoad, writeAtRandom } from '../random-writes.ts';
import type { ChildRole } from './child.ts';

const program = fileURLToPath(new URL('./child.ts', import.meta.url));
const newPath = () => join(temporaryFolder(), 'users.db');

async function open(t: TestContext, path: string, options?: SqliteStoreOptions): Promise<Store> {
  const store = await openSqliteStore(path, options);
  t.after(() => store.close());
  return store;
}

function query(path: string, sql: string): unknown {
  const db = new DatabaseSync(path);
  const row = db.prepare(sql).get();
  db.close();
  return row && Object.values(row)[0];
}

describe('the feed of changes in a SQLite file', () => {
  it('contains the concurrent random writes of two processes in one order', async (t) => {
    const path = newPath();
    const store = await open(t, path);
    const feed = feedOf(store);
    const seed = Math.floor(Math.random() * 1_000_000);
    t.diagnostic(`seed ${seed}`);
    const ours: RandomLoad = { seed, writers: 8, writes: 40 };
    const theirs = { ...ours, seed: seed + 1 };
    const role: ChildRole = 'write-at-random';
    const child = spawn(process.execPath, [program, role, path, JSON.stringify(theirs)], {
      stdio: 'inherit',
    });
    const [changes, [code]] = await Promise.all([
      followTogether(feed, ours, theirs),
      once(child, 'close'),
      writeAtRandom(store, ours),
    ]);
    assert.equal(code, 0);
    await checkFeed(store, feed, changes);
  });

  it('continues to read past many changes of other types', async (t) => {
    const path = newPath();
    const store = await open(t, path);
    query(
      path,
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
      INSERT INTO changes (type, time, record, user_id)
      SELECT 'user.created', 0, '{"id":1}', 1 FROM n`,
    );
    await addUsers(store, 'Ada');
    await store.users.delete(1);
    const feed = feedOf(store);
    const types = ['user.deleted'] as const;
    const first = await feed.read({ after: 0, limit: 10, types });
    assert.deepEqual(first, { changes: [], next: 2_000, more: true });
    const positions = (await readAll(feed, { types })).map(({ position }) => position);
    assert.deepEqual(positions, [25_002]);
  });

  it('deletes old changes in small steps', async (t) => {
    const path = newPath();
    const store = await open(t, path);
    const count = () => Number(query(path, 'SELECT count(*) FROM changes'));
    await Promise.all(Array.from({ length: 3_000 }, () => store.users.create({ name: 'Ada' })));
    assert.equal(count(), 3_000);
    await store.close();
    const fewer = await open(t, path, { changesKept: 100 });
    await addUsers(fewer, 'next');
    assert.equal(count(), 3_001 - 1_024);
    await rejects(feedOf(fewer).read({ after: 2_900, limit: 1 }), 'gone');
    assert.equal((await readAll(feedOf(fewer), { after: 2_901 })).length, 100);
    await addUsers(fewer, 'later');
    assert.equal(count(), 3_002 - 1_024, 'not every change deletes others');
    await Promise.all(Array.from({ length: 1_000 }, () => fewer.users.create({ name: 'Ada' })));
    const kept = count();
    assert.ok(kept >= 100 && kept <= 100 + 256, `${kept} are kept`);
  });

  it('starts anew only after a write that was not recorded in the feed', async (t) => {
    const path = newPath();
    const first = await open(t, path);
    const changes = await addSample(first);
    await first.close();
    await (await open(t, path, { changesKept: 0 })).close();
    const second = await open(t, path);
    assert.deepEqual(await firstChanges(second, 10), changes);
    await second.close();
    const off = await open(t, path, { changesKept: 0 });
    await rejects(off.users.update(2, { name: 'x' }, { expected: [9] }), 'precondition-failed');
    await off.users.update(2, { name: 'Bob' });
    await off.users.delete(2);
    await off.close();
    const third = await open(t, path);
    const feed = feedOf(third);
    for (const after of [0, 9, 10]) await rejects(feed.read({ after, limit: 1 }), 'gone');
    const after = await feed.position();
    await addUsers(third, 'next');
    assert.equal((await readAll(feed, { after })).length, 1);
  });

  it('restarts once for each process and adds no change while it is off', async (t) => {
    const path = newPath();
    const store = await open(t, path, { changesKept: 0 });
    const other = await open(t, path, { changesKept: 0 });
    const last = () => query(path, 'SELECT max(position) FROM changes');
    await addUsers(store, 'Ada');
    await addUsers(other, 'Bob');
    const before = last();
    await store.posts(1).create({ title: 'a', body: '' });
    await other.users.delete(2);
    await store.users.delete(1);
    assert.equal(last(), before);
  });

  it('deletes the changes from before it was switched off', async (t) => {
    const path = newPath();
    const store = await open(t, path);
    await Promise.all(Array.from({ length: 3_000 }, () => store.users.create({ name: 'Ada' })));
    await store.close();
    const off = await open(t, path, { changesKept: 0 });
    await Promise.all(Array.from({ length: 600 }, () => off.users.create({ name: 'Ada' })));
    assert.equal(query(path, 'SELECT count(*) FROM changes'), 1);
  });

  it('restarts again while it is off if its restart was rolled back, a process adds a change, or a process starts', () => {
    const path = newPath();
    writeFileSync(path, '');
    connect(path, migrate).close();
    using db = connect(path);
    const write = (log: ReturnType<typeof changeLog>) => {
      log.add('user.created', { id: 1, name: 'Ada', version: 1 });
      return sqliteFeed(db).position();
    };
    const off = changeLog(db, 0);
    db.exec('BEGIN');
    write(off);
    db.exec('ROLLBACK');
    const first = write(off);
    assert.notEqual(first, 0);
    const change = write(changeLog(db, 10));
    const second = write(off);
    assert.ok(second > change);
    assert.ok(write(changeLog(db, 0)) > second);
  });

  it('has a higher position after each of two restarts in the same millisecond', (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
    const path = newPath();
    writeFileSync(path, '');
    connect(path, migrate).close();
    using db = connect(path);
    const log = changeLog(db, 10);
    const positions = [1, 2, 3].map(() => {
      log.restart();
      return sqliteFeed(db).position();
    });
    assert.deepEqual(positions, [1.8e15, 1.8e15 + 1, 1.8e15 + 2]);
  });

  it('adds no more changes than it keeps when a user with many posts is deleted', async (t) => {
    const path = newPath();
    const store = await open(t, path, { changesKept: 10 });
    await addUsers(store, 'Ada');
    // The first change is followed by a deletion of old ones, and so is each 256th change after it.
    await Promise.all(Array.from({ length: 255 }, () => store.posts(1).create({ title: 'a', body: '' })));
    assert.equal(query(path, 'SELECT count(*) FROM changes'), 256);
    await store.users.update(1, { name: 'Eve' });
    assert.equal(query(path, 'SELECT count(*) FROM changes'), 10);
    const feed = feedOf(store);
    const before = await feed.position();
    await store.users.delete(1);
    await rejects(feed.read({ after: before, limit: 1 }), 'gone');
    const kept = await readAll(feed, { after: Number(query(path, 'SELECT gone FROM feed')) });
    const posts = Array.from({ length: 10 }, (_, i) => `post.deleted ${246 + i}`);
    assert.deepEqual(idsOf(kept), [...posts, 'user.deleted 1']);
  });

  it('starts after the rows of a file of an earlier version', async (t) => {
    const path = newPath();
    const db = new DatabaseSync(path);
    db.exec(readFileSync(new URL('version-1.sql', import.meta.url), 'utf8'));
    db.close();
    const feed = feedOf(await open(t, path));
    await rejects(feed.read({ after: 0, limit: 1 }), 'gone');
    assert.deepEqual(await readAll(feed, { after: await feed.position() }), []);
  });

  it('is included in a backup, without later positions', async (t) => {
    const [path, target] = [newPath(), newPath()];
    const store = await open(t, path);
    const changes = await addSample(store);
    await backupSqlite(path, target);
    await addUsers(store, 'later');
    const feed = feedOf(await open(t, target));
    assert.deepEqual(await readAll(feed), changes);
    await rejects(feed.read({ after: await feedOf(store).position(), limit: 1 }), 'gone');
  });

  // An error may end the transaction, as one of the disk does.
  for (const effect of ['ABORT', 'ROLLBACK']) {
    it(`fails and rolls back all writes of a group when a change cannot be added, with ${effect}`, async (t) => {
      const path = newPath();
      const store = await open(t, path);
      await addUsers(store, 'Ada', 'Bob');
      await store.posts(1).create({ title: 'fail', body: '' });
      query(
        path,
        `CREATE TRIGGER failing BEFORE INSERT ON changes WHEN NEW.record LIKE '%fail%'
        BEGIN SELECT RAISE(${effect}, 'no more'); END`,
      );
      const before = await readAll(feedOf(store));
      const rows = async () => [
        await store.exportRows('users', 0, 10),
        await store.exportRows('posts', 0, 10),
      ];
      const rowsBefore = await rows();
      const idempotency = { key: 'k', fingerprint: '' };
      for (const write of [
        () => store.users.create({ name: 'fail' }),
        () => store.users.create({ name: 'fail' }, { idempotency }),
        () => store.users.update(2, { name: 'fail' }),
        () => store.posts(1).delete(1),
      ]) {
        const results = await Promise.allSettled([store.users.create({ name: 'first' }), write()]);
        for (const result of results) {
          assert.ok(result.status === 'rejected');
          assert.match(String(result.reason.cause), /no more$/);
        }
      }
      await rejects(store.users.delete(1), 'internal');
      // A stale version is found before the deletions of the posts are written, which may be many.
      await rejects(store.users.delete(1, { expected: [2] }), 'precondition-failed');
      assert.deepEqual(await rows(), rowsBefore);
      assert.deepEqual(await readAll(feedOf(store)), before);
      assert.equal((await store.users.create({ name: 'Eve' }, { idempotency })).value.id, 3);
    });
  }

  it('rolls back a write and new last ids when the feed cannot restart', async (t) => {
    const path = newPath();
    const before = await open(t, path);
    await addUsers(before, 'Ada');
    await before.close();
    query(
      path,
      `CREATE TRIGGER failing BEFORE INSERT ON changes WHEN NEW.type = ''
      BEGIN SELECT RAISE(ABORT, 'no more'); END`,
    );
    const store = await open(t, path, { changesKept: 0 });
    await rejects(store.users.create({ name: 'Bob' }), 'internal');
    await rejects(store.users.update(1, { name: 'Eve' }), 'internal');
    await rejects(store.continueIds(byKind(() => 5)), 'internal');
    assert.deepEqual(await store.exportRows('users', 0, 10), [{ id: 1, name: 'Ada', version: 1 }]);
    const none = byKind(() => ({ count: 0, lastId: 0 }));
    assert.deepEqual(await store.summary(), { ...none, users: { count: 1, lastId: 1 } });
  });

  it('leaves out the changes of a newer release, whose types it does not know', async (t) => {
    const path = newPath();
    const store = await open(t, path);
    await addUsers(store, 'Ada');
    query(
      path,
      `INSERT INTO changes (type, time, record, user_id) VALUES ('unknown.created', 0, '{"id":1,"userId":1}', 1)`,
    );
    await addUsers(store, 'Bob');
    const ids = async (filter: { userId?: number }) =>
      (await readAll(feedOf(store), { limit: 1, ...filter })).map(({ record }) => record.id);
    assert.deepEqual(await ids({}), [1, 2]);
    assert.deepEqual(await ids({ userId: 1 }), [1]);
  });
});
