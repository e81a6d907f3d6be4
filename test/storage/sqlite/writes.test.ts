import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';
import { describeError } from '../../../src/commands/errors.ts';
import { addUsers, keyed, rejects } from '../../../src/conformance/fixture.ts';
import { byKind, maxId } from '../../../src/domain/record.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { connect } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/storage/sqlite/store.ts';
import { WriteQueue } from '../../../src/storage/sqlite/write-queue.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { temporaryFolder } from '../../support/temporary.ts';

async function open(t: TestContext, options?: SqliteStoreOptions): Promise<{ store: Store; path: string }> {
  const path = join(temporaryFolder(), 'users.db');
  const store = closeAfter(t, await openSqliteStore(path, options));
  return { store, path };
}

/** The number of transactions in a write-ahead log (sqlite.org/fileformat2.html#the_write_ahead_log). */
function countCommits(path: string): number {
  const log = readFileSync(`${path}-wal`);
  const frameBytes = 24 + log.readUInt32BE(8);
  let commits = 0;
  for (let at = 32; at + frameBytes <= log.length; at += frameBytes) {
    const ofThisLog = log.subarray(at + 8, at + 16).equals(log.subarray(16, 24));
    // Only the last frame of a transaction contains the size of the file.
    if (ofThisLog && log.readUInt32BE(at + 4) !== 0) commits += 1;
  }
  return commits;
}

function createUsers(store: Store, count: number): Promise<unknown>[] {
  return Array.from({ length: count }, (_, i) => store.users.create({ name: `user ${i}` }));
}

describe('group commit of SQLite', () => {
  it('uses one transaction for writes that arrive together', async (t) => {
    const { store, path } = await open(t);
    await addUsers(store, 'Ada');
    const before = countCommits(path);
    await Promise.all(createUsers(store, 100));
    assert.equal(countCommits(path) - before, 1);
  });

  it('uses one transaction for each write that arrives alone', async (t) => {
    const { store, path } = await open(t);
    await addUsers(store, 'Ada');
    const before = countCommits(path);
    await addUsers(store, 'a', 'b', 'c', 'd', 'e');
    assert.equal(countCommits(path) - before, 5);
  });

  it('uses few transactions for 64 writers that each wait for their result', async (t) => {
    const { store, path } = await open(t);
    await addUsers(store, 'Ada');
    const before = countCommits(path);
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        for (let i = 0; i < 5; i += 1) await store.users.create({ name: 'Ada' });
      }),
    );
    const commits = countCommits(path) - before;
    assert.ok(commits >= 5 && commits <= 20, `${commits} transactions for 320 writes`);
  });

  it('acknowledges a write only after it is committed', async (t) => {
    const { store, path } = await open(t);
    const other = closeAfter(t, connect(path));
    const find = other.prepare('SELECT name FROM users WHERE id = ?');
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(
        Array.from({ length: 20 }, async () => {
          const { value } = await store.users.create({ name: 'Ada' });
          assert.ok(find.get(value.id), `another connection does not see user ${value.id}`);
        }),
      );
    }
  });

  it('fails one write of a group without the others', async (t) => {
    const { store, path } = await open(t);
    await addUsers(store, 'a', 'b');
    await store.posts(1).create({ title: 'title', body: '' });
    const before = countCommits(path);
    const key = { idempotency: { key: 'k', fingerprint: 'f' } };
    const results = await Promise.allSettled([
      store.users.create({ name: 'first' }, key),
      store.users.update(1, { name: 'x' }, { expected: [9] }),
      store.importRows('users', [
        { id: 7, name: 'new', version: 1 },
        { id: 2, name: 'different', version: 1 },
      ]),
      store.importRows('posts', [{ id: 7, userId: 99, title: 'orphan', body: '', version: 1 }]),
      store.posts(99).create({ title: 'orphan', body: '' }),
      // biome-ignore lint/suspicious/noExplicitAny: a caller without types might pass this
      store.users.create({ name: { not: 'a string' } as any }),
      store.users.create({ name: 'last' }),
    ]);
    assert.equal(countCommits(path) - before, 1, 'the writes must be one group');
    assert.deepEqual(
      results.map((result) => (result.status === 'fulfilled' ? 'done' : result.reason.kind)),
      ['done', 'precondition-failed', 'conflict', 'conflict', 'done', 'internal', 'done'],
    );
    const { users, posts } = await store.summary();
    assert.deepEqual([users.count, posts.count], [4, 1]);
  });

  it('rolls back a write that fails in its second statement', async (t) => {
    const { store } = await open(t);
    await store.continueIds({ ...byKind(() => 0), users: maxId });
    const key = { idempotency: { key: 'k', fingerprint: 'f' } };
    await rejects(store.users.create({ name: 'Ada' }, key), 'unavailable');
    await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
    const created = await store.posts(1).create({ title: 'title', body: '' }, key);
    assert.equal(created?.replayed, false, 'the key of the failed creation must be free');
  });

  for (const action of ['NO ACTION', 'RESTRICT', 'NO ACTION DEFERRABLE INITIALLY DEFERRED']) {
    it(`rejects a deletion that a foreign key of another table with ${action} prevents, and no other write`, async (t) => {
      const { store, path } = await open(t);
      await addUsers(store, 'Ada');
      await store.posts(1).create({ title: 'title', body: '' });
      const db = connect(path);
      db.exec(`CREATE TABLE likes (post REFERENCES posts ON DELETE ${action}); INSERT INTO likes VALUES (1)`);
      db.close();
      const added = addUsers(store, 'Bob');
      await rejects(store.posts(1).delete(1), 'conflict');
      await rejects(store.users.delete(1), 'conflict');
      await added;
      assert.equal(await store.posts(1).count({}), 1);
      await store.ping();
    });
  }

  it('repeats few commits if a deferred foreign key prevents one of many writes', async (t) => {
    const { store, path } = await open(t);
    await addUsers(store, ...Array.from({ length: 64 }, (_, i) => `user ${i}`));
    const db = connect(path);
    db.exec(
      'CREATE TABLE likes (user REFERENCES users DEFERRABLE INITIALLY DEFERRED); INSERT INTO likes VALUES (1)',
    );
    db.close();
    const before = countCommits(path);
    const results = await Promise.allSettled(Array.from({ length: 64 }, (_, i) => store.users.delete(i + 1)));
    assert.deepEqual(
      results.flatMap(({ status }, i) => (status === 'rejected' ? [i] : [])),
      [0],
    );
    // One for each half that does not have the deletion.
    assert.equal(countCommits(path) - before, 6);
  });

  it('rejects an idempotency key while its first request runs, and then replays the result', async (t) => {
    const { store } = await open(t);
    const key = { idempotency: { key: 'k', fingerprint: 'f' } };
    const first = store.users.create({ name: 'Ada' }, key);
    await rejects(store.users.create({ name: 'Ada' }, key), 'conflict');
    const { value } = await first;
    assert.deepEqual(await store.users.create({ name: 'Ada' }, key), { value, replayed: true });
  });

  it('removes at most ten expired idempotency keys with each new one, which may be an expired one', async (t) => {
    const { store, path } = await open(t);
    using db = connect(path);
    const insert = db.prepare("INSERT INTO idempotency_keys VALUES (?, '', '{}', 1)");
    for (let i = 0; i < 25; i += 1) insert.run(`old ${i}`);
    // The second one is still in the table.
    for (const [key, left] of [
      ['new', 16],
      ['old 24', 6],
    ] as const) {
      await store.users.create({ name: 'Ada' }, { idempotency: { key, fingerprint: '' } });
      assert.deepEqual(db.prepare('SELECT count(*) FROM idempotency_keys').get(), [left]);
    }
  });

  it('commits the writes of one caller in their order', async (t) => {
    const { store } = await open(t);
    const results = await Promise.all([
      store.users.create({ name: 'a' }),
      store.users.update(1, { name: 'b' }, { expected: [1] }),
      store.users.update(1, { name: 'c' }, { expected: [2] }),
      store.users.delete(1, { expected: [3] }),
      store.users.delete(1),
    ]);
    const [second, third] = [
      { id: 1, name: 'b', version: 2 },
      { id: 1, name: 'c', version: 3 },
    ];
    assert.deepEqual(results.slice(1), [second, third, true, false]);
  });

  it('rejects writes beyond its limit, and accepts writes again later', async (t) => {
    const { store } = await open(t, { maxPendingWrites: 10 });
    const results = await Promise.allSettled(createUsers(store, 15));
    const kinds = results.map((result) => (result.status === 'fulfilled' ? 'done' : result.reason.kind));
    assert.deepEqual(kinds, [...Array(10).fill('done'), ...Array(5).fill('overloaded')]);
    await Promise.all(createUsers(store, 10));
    assert.equal(await store.users.count({}), 20);
  });
});

describe('the writer thread', () => {
  function countStarts(t: TestContext): () => number {
    let started = 0;
    const count = () => {
      started += 1;
    };
    subscribe('worker_threads', count);
    t.after(() => unsubscribe('worker_threads', count));
    t.mock.timers.enable({ apis: ['setTimeout'] });
    return () => started;
  }

  it('starts soon after the store has opened, without a write', async (t) => {
    const starts = countStarts(t);
    const { store } = await open(t);
    assert.equal(starts(), 0);
    t.mock.timers.tick(1_000);
    assert.equal(starts(), 1);
    await addUsers(store, 'Ada');
    assert.equal(starts(), 1);
  });

  it('starts for an earlier write, and only once', async (t) => {
    const starts = countStarts(t);
    const { store } = await open(t);
    await addUsers(store, 'Ada');
    t.mock.timers.tick(1_000);
    await addUsers(store, 'Grace');
    assert.equal(starts(), 1);
  });

  it('does not start after the store was closed', async (t) => {
    const starts = countStarts(t);
    const { store } = await open(t);
    await store.close();
    t.mock.timers.tick(1_000);
    assert.equal(starts(), 0);
  });
});

describe('a writer thread that is lost', () => {
  const crash =
    'require("node:worker_threads").parentPort.once("message", () => { throw new Error("crash"); })';
  const exit = 'require("node:worker_threads").parentPort.once("message", () => process.exit(3))';
  const answer = `const { parentPort } = require("node:worker_threads");
    parentPort.on("message", (m) => m === "close" ? parentPort.close() : parentPort.postMessage({ value: m.map(() => ({ value: true })) }))`;

  function queueOf(t: TestContext, ...sources: string[]): WriteQueue {
    const startWriter = () => {
      const source = sources.shift();
      if (source === undefined) throw new Error('no thread could be started');
      return new Worker(source, { eval: true });
    };
    const queue = closeAfter(t, new WriteQueue({ startWriter, maxPendingWrites: 100, maxWaitMs: 10_000 }));
    return queue;
  }

  for (const [what, source] of [
    ['crashes', crash],
    ['exits', exit],
    ['does not load', 'this is not JavaScript'],
  ] as const) {
    it(`fails the pending writes and is replaced when it ${what}`, async (t) => {
      const queue = queueOf(t, source, answer);
      const writing = Array.from({ length: 100 }, () => queue.write('delete', ['users', [1]]));
      for (const result of await Promise.allSettled(writing)) {
        assert.equal(result.status === 'rejected' && result.reason.kind, 'unavailable');
      }
      assert.equal(await queue.write('delete', ['users', [1]]), true);
    });
  }

  it('fails only the group that it had; the next thread gets the waiting writes', async (t) => {
    const queue = queueOf(t, crash, answer);
    const first = rejects(queue.write('delete', ['users', [1]]), 'unavailable');
    // The first write is sent as a group in this turn.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await queue.write('delete', ['users', [1]]), true);
    await first;
  });

  it('fails the writes when it cannot be restarted, and is started again at a later write', async (t) => {
    const queue = queueOf(t);
    queue.start();
    assert.equal(queue.failure?.kind, 'unavailable');
    await rejects(queue.write('delete', ['users', [1]]), 'unavailable');
    await rejects(queue.write('delete', ['users', [1]]), 'unavailable');
  });

  for (const [thrown, reason] of [
    ['new Error("crash")', 'crash'],
    ['new Error("unavailable", { cause: new Error("no file") })', 'no file'],
  ] as const) {
    it(`fails the writes with the reason why it has thrown ${thrown}`, async (t) => {
      const queue = queueOf(t, crash.replace('new Error("crash")', thrown));
      const error = await queue.write('delete', ['users', [1]]).catch((caught: unknown) => caught);
      assert.equal(describeError(error), `the store is not available: ${reason}`);
    });
  }

  it('does not prevent the queue from closing', async (t) => {
    const queue = queueOf(t, crash);
    const write = rejects(queue.write('delete', ['users', [1]]), 'unavailable');
    await queue.close();
    await write;
  });
});

function isReady(store: Store): Promise<boolean> {
  return Promise.resolve(store.ping()).then(
    () => true,
    () => false,
  );
}

it('a commit may take two seconds longer than the wait for a lock until a SQLite store is not ready', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { store, path } = await open(t, { busyTimeoutMs: 60_000 });
  using db = connect(path);
  db.exec('BEGIN IMMEDIATE');
  const write = addUsers(store, 'Ada');
  await new Promise((resolve) => setImmediate(resolve));
  t.mock.timers.tick(61_999);
  await store.ping();
  t.mock.timers.tick(1);
  await rejects(store.ping(), 'unavailable');
  db.exec('ROLLBACK');
  await write;
});

describe('readiness checks of a SQLite store whose last write failed', () => {
  it('try a write until one succeeds', async (t) => {
    const { store, path } = await open(t, { busyTimeoutMs: 50 });
    const db = closeAfter(t, connect(path));
    db.exec('BEGIN IMMEDIATE');
    await rejects(store.users.create({ name: 'Ada' }), 'unavailable');
    await rejects(store.ping(), 'unavailable');
    // Waits behind the write that the check tries.
    await rejects(store.users.create({ name: 'Ada' }), 'unavailable');
    db.exec('ROLLBACK');
    await until(() => isReady(store), 'the store must be ready again without a write');
  });

  it('try one write at a time, so that they do not fill the queue', async (t) => {
    const { store, path } = await open(t, { busyTimeoutMs: 300, maxPendingWrites: 2 });
    const db = closeAfter(t, connect(path));
    db.exec('BEGIN IMMEDIATE');
    await rejects(store.users.create({ name: 'Ada' }), 'unavailable');
    for (let i = 0; i < 3; i += 1) await rejects(store.ping(), 'unavailable');
    const write = store.users.create({ name: 'Grace' });
    db.exec('ROLLBACK');
    assert.equal((await write).value.name, 'Grace');
  });
});

describe('a full disk', () => {
  /** Mounts an empty disk of this size, such as 1m. Resolves to `undefined` if the user must not. */
  function mountDisk(t: TestContext, size: string): string | undefined {
    const folder = join(temporaryFolder(), 'disk');
    mkdirSync(folder);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' });
    } catch {
      t.skip('only root can mount a small disk');
      return undefined;
    }
    t.after(() => execFileSync('umount', ['-l', folder]));
    return folder;
  }

  for (const [size, problem] of [
    // There is room for the file, but not for its log.
    ['16k', 'disk I/O error (code 4874 of SQLite)'],
    ['4k', 'database or disk is full (code 13 of SQLite)'],
  ] as const) {
    it(`is the cause in the error of a start: ${problem}`, async (t) => {
      const folder = mountDisk(t, size);
      if (folder === undefined) return;
      const path = join(folder, 'users.db');
      const message = `cannot open the SQLite file ${path}: ${problem}`;
      await assert.rejects(openSqliteStore(path), { kind: 'unavailable', message });
    });
  }

  it('fails writes and readiness but not reads, until there is space again', async (t) => {
    const folder = mountDisk(t, '1m');
    if (folder === undefined) return;
    const store = closeAfter(t, await openSqliteStore(join(folder, 'users.db')));
    await addUsers(store, 'Ada');
    const filler = join(folder, 'filler');
    assert.throws(() => writeFileSync(filler, Buffer.alloc(1024 * 1024)), { code: 'ENOSPC' });
    const results = await Promise.allSettled(createUsers(store, 200));
    const acknowledged = results.filter((result) => result.status === 'fulfilled').length;
    for (const result of results)
      if (result.status === 'rejected') assert.equal(result.reason.kind, 'unavailable');
    assert.ok(acknowledged < 200, 'the disk must be full');
    assert.equal(await store.users.count({}), 1 + acknowledged);
    // It would succeed without a change on the disk.
    await rejects(store.users.delete(9_999), 'unavailable');
    await assert.rejects(store.users.create({ name: 'x'.repeat(200) }), ({ kind, cause }) => {
      assert.equal(kind, 'unavailable');
      assert.match(cause.message, /\(code \d+ of SQLite\)$/);
      return true;
    });
    for (let i = 0; i < 3; i += 1) await rejects(store.ping(), 'unavailable');
    rmSync(filler);
    await until(() => isReady(store), 'the store must be ready again without a write');
    await Promise.all(createUsers(store, 20));
    assert.equal(await store.users.count({}), 21 + acknowledged);
  });
});

it('a unique index of another program makes duplicates fail as a final conflict', async (t) => {
  const { store, path } = await open(t);
  await addUsers(store, 'Ada', 'Eve');
  const other = connect(path);
  other.exec('CREATE UNIQUE INDEX one_of_each ON users (name)');
  other.close();
  const message = 'another record has a value that must be unique';
  const conflict = { kind: 'conflict', isFinal: true, message };
  await assert.rejects(store.users.create({ name: 'Ada' }), conflict);
  await assert.rejects(store.users.create({ name: 'Ada' }, keyed('key')), conflict);
  await assert.rejects(store.users.update(2, { name: 'Ada' }), conflict);
  assert.equal((await store.users.create({ name: 'Bob' }, keyed('key'))).replayed, false);
});

it('a condition of another program fails as internal, not as if no id were left', async (t) => {
  const { store, path } = await open(t);
  const other = connect(path);
  other.exec("ALTER TABLE users ADD COLUMN note TEXT CHECK (name <> 'Eve')");
  other.close();
  await rejects(store.users.create({ name: 'Eve' }), 'internal');
  await rejects(store.users.create({ name: 'Eve' }, keyed('key')), 'internal');
  assert.equal((await store.users.create({ name: 'Ada' })).value.id, 1);
});

describe('a trigger of another program that prevents a write', () => {
  const writes: readonly [verb: string, write: (store: Store) => unknown][] = [
    ['INSERT', (store) => store.users.create({ name: 'Bob' })],
    ['UPDATE', (store) => store.users.update(1, { name: 'Bob' })],
    ['DELETE', (store) => store.users.delete(1)],
  ];
  for (const [verb, write] of writes) {
    it(`makes the ${verb} fail, and leaves neither a change nor a record`, async (t) => {
      const { store, path } = await open(t);
      await addUsers(store, 'Ada');
      await store.posts(1).create({ title: 'a', body: '' });
      const before = await store.changes?.position();
      const other = connect(path);
      other.exec(`CREATE TRIGGER no BEFORE ${verb} ON users BEGIN SELECT RAISE(IGNORE); END`);
      other.close();
      await rejects(write(store), 'internal');
      assert.equal(await store.changes?.position(), before);
      assert.deepEqual(await store.users.get(1), { id: 1, name: 'Ada', version: 1 });
      assert.equal(await store.users.count({}), 1);
      assert.equal(await store.posts(1).count({}), 1);
    });
  }
});
