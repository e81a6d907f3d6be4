import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import type { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { rejects, userQuery } from '../../../src/conformance/fixture.ts';
import { isLogUnused } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { until } from '../../kit/until.ts';
import { closeAfter } from '../../support/close-after.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import type { ChildRole } from './child.ts';

const program = fileURLToPath(new URL('./child.ts', import.meta.url));

type Child = ChildProcessByStdio<null, Readable, null>;

function start(role: ChildRole, path: string, env = process.env): Child {
  return spawn(process.execPath, [program, role, path], { stdio: ['ignore', 'pipe', 'inherit'], env });
}

/** The output of a child process that has exited with 0. */
async function outputOf(child: Child): Promise<string> {
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0);
  return text.trim();
}

describe('several processes on one SQLite file', () => {
  it('all start when four open a new file at once', async () => {
    const path = join(temporaryFolder(), 'new', 'users.db');
    const ids = await Promise.all(Array.from({ length: 4 }, () => outputOf(start('create', path))));
    const sorted = ids.map(Number).toSorted((a, b) => a - b);
    assert.deepEqual(sorted, [1, 2, 3, 4]);
  });

  it('all start when four threads repeatedly open a new file at the same moment', async (t) => {
    const barrier = new Int32Array(new SharedArrayBuffer(8));
    const rounds = 20;
    const source = `
      const { parentPort, workerData: { module, folder, barrier, rounds, threads } } = require('node:worker_threads');
      (async () => {
        const { openSqliteStore } = await import(module);
        for (let round = 1; round <= rounds; round += 1) {
          if (Atomics.add(barrier, 0, 1) + 1 === round * threads) {
            Atomics.store(barrier, 1, round);
            Atomics.notify(barrier, 1);
          } else Atomics.wait(barrier, 1, round - 1);
          const store = await openSqliteStore(folder + '/' + round + '.db');
          await store.ping();
          await store.close();
        }
        parentPort.postMessage('done');
      })();`;
    const module = new URL('../../../src/storage/sqlite/store.ts', import.meta.url).href;
    const workerData = { module, folder: temporaryFolder(), barrier, rounds, threads: 4 };
    const workers = Array.from({ length: 4 }, () => new Worker(source, { eval: true, workerData }));
    t.after(() => Promise.all(workers.map((worker) => worker.terminate())));
    const done = await Promise.all(workers.map((worker) => once(worker, 'message')));
    assert.deepEqual(done.flat(), ['done', 'done', 'done', 'done']);
  });

  it('create one user when five use the same key at once', async () => {
    const path = join(temporaryFolder(), 'users.db');
    const replayed = await Promise.all(
      Array.from({ length: 5 }, () => outputOf(start('create-with-key', path))),
    );
    assert.deepEqual(replayed.toSorted(), ['false', 'true', 'true', 'true', 'true']);
  });

  it('write concurrently, and see the writes of the others', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = closeAfter(t, await openSqliteStore(path));
    const child = start('load', path);
    t.after(() => child.kill('SIGKILL'));
    const lines = createInterface({ input: child.stdout });
    const theirs: number[] = [];
    lines.on('line', (line) => theirs.push(Number.parseInt(line, 10)));
    await once(lines, 'line');
    const ours: number[] = [];
    while (ours.length < 200) {
      const created = await Promise.all(['a', 'b', 'c', 'd'].map((name) => store.users.create({ name })));
      ours.push(...created.map(({ value }) => value.id));
      const last = theirs.at(-1);
      assert.ok(last && (await store.users.get(last)), `user ${last} of the other process`);
    }
    child.kill('SIGKILL');
    await once(lines, 'close');
    assert.equal(new Set([...ours, ...theirs]).size, ours.length + theirs.length, 'an id was assigned twice');
    assert.ok((await store.users.count({})) >= ours.length + theirs.length);
  });

  it('keep every acknowledged write of a process that is killed under load', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const child = start('load', path);
    t.after(() => child.kill('SIGKILL'));
    const acknowledged: string[] = [];
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (line) => {
      acknowledged.push(line);
      if (acknowledged.length === 500) child.kill('SIGKILL');
    });
    const [, signal] = await once(child, 'close');
    assert.equal(signal, 'SIGKILL');
    const store = closeAfter(t, await openSqliteStore(path));
    for (const line of acknowledged) {
      const id = Number.parseInt(line, 10);
      assert.equal(`${id} ${(await store.users.get(id))?.name}`, line);
    }
    const db = new DatabaseSync(path, { readOnly: true });
    assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    db.close();
  });

  it('find an emptied log unused while another checkpoint runs, but not one with a write', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = closeAfter(t, await openSqliteStore(path));
    await store.users.create({ name: 'Ada' });
    assert.equal(isLogUnused(path), false);
    using db = new DatabaseSync(path);
    db.exec('PRAGMA wal_checkpoint(TRUNCATE); BEGIN IMMEDIATE');
    // It holds the lock of a checkpoint, and waits for that of the transaction.
    const source = `
      const { DatabaseSync } = require('node:sqlite');
      const db = new DatabaseSync(require('node:worker_threads').workerData);
      db.exec('PRAGMA busy_timeout = 60000; PRAGMA wal_checkpoint(FULL)');
      db.close();`;
    const thread = new Worker(source, { eval: true, workerData: path });
    const ended = once(thread, 'exit');
    using prober = new DatabaseSync(path);
    const isBusy = () => prober.prepare('PRAGMA wal_checkpoint').get()?.['busy'] === 1;
    await until(isBusy, 'the other checkpoint runs');
    assert.equal(isLogUnused(path), true);
    db.exec('ROLLBACK');
    await ended;
  });

  it('can also write when they were started with --eval', async () => {
    const module = new URL('../../../src/storage/sqlite/store.ts', import.meta.url).href;
    const script = `
      const { openSqliteStore } = await import(${JSON.stringify(module)});
      const store = await openSqliteStore(${JSON.stringify(join(temporaryFolder(), 'users.db'))});
      console.log((await store.users.create({ name: 'Ada' })).value.id);
      await store.close();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    assert.equal(await outputOf(child), '1');
  });

  it('can exit without closing an idle store', async () => {
    const path = join(temporaryFolder(), 'users.db');
    assert.equal(await outputOf(start('leave-open', path)), 'created');
  });

  it('can exit without closing a store that was only read until its writer thread had started', async (t) => {
    const child = start('leave-unwritten', join(temporaryFolder(), 'users.db'));
    t.after(() => child.kill('SIGKILL'));
    assert.equal(await outputOf(child), '');
  });
});

it('the deletion of a user with many posts creates no temporary file, which fails in a read-only container', async () => {
  const folder = temporaryFolder();
  const changedAt = statSync(folder, { bigint: true }).mtimeNs;
  const env = { ...process.env, SQLITE_TMPDIR: folder };
  await outputOf(start('delete-many', join(temporaryFolder(), 'users.db'), env));
  // SQLite unlinks its temporary files as soon as they are open.
  assert.equal(statSync(folder, { bigint: true }).mtimeNs, changedAt);
});

it('a page after thousands of long posts needs no memory for their texts', async () => {
  const path = join(temporaryFolder(), 'users.db');
  const store = await openSqliteStore(path, { busyTimeoutMs: 60_000 });
  const { value: user } = await store.users.create({ name: 'Ada' });
  const body = 'x'.repeat(10_000);
  await Promise.all(Array.from({ length: 3_000 }, () => store.posts(user.id).create({ title: 'T', body })));
  await store.close();
  const bytes = Number(await outputOf(start('read-deep-page', path)));
  assert.ok(bytes < 15_000_000, `${bytes} bytes`);
});

describe('a SQLite file that another process has locked', () => {
  function lock(path: string): DatabaseSync {
    const db = new DatabaseSync(path);
    db.exec('BEGIN EXCLUSIVE');
    return db;
  }

  it('can be read, and is written when the lock is released', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path, { busyTimeoutMs: 60_000 });
    const impatient = await openSqliteStore(path, { busyTimeoutMs: 300 });
    await store.users.create({ name: 'Ada' });
    const other = lock(path);
    t.after(async () => {
      if (other.isOpen) other.close();
      await Promise.all([store.close(), impatient.close()]);
    });
    let written = 0;
    const writing = Array.from({ length: 10 }, async () => {
      await store.users.create({ name: 'waiting' });
      written += 1;
    });
    // This write starts later than the others, so they have met the lock too when it fails.
    let isRejected = false;
    const rejected = rejects(impatient.users.create({ name: 'rejected' }), 'unavailable').then(() => {
      isRejected = true;
    });
    for (let reads = 0; !isRejected || reads < 100; reads += 1) {
      assert.equal((await store.users.get(1))?.name, 'Ada');
      assert.equal((await store.users.list(userQuery('sort=name'))).items.length, 1);
      await Promise.race([rejected, delay(5)]);
    }
    assert.equal(written, 0, 'a write ignored the lock');
    other.exec('COMMIT');
    other.close();
    await Promise.all(writing);
    assert.equal(await store.users.count({}), 11);
  });

  it('fails writes as unavailable at the lock timeout, and accepts writes again later', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = closeAfter(t, await openSqliteStore(path, { busyTimeoutMs: 300 }));
    await store.users.create({ name: 'Ada' });
    const other = lock(path);
    const before = performance.now();
    await rejects(store.users.create({ name: 'Bob' }), 'unavailable');
    const waited = performance.now() - before;
    assert.ok(waited >= 300 && waited < 20_000, `it waited ${waited} ms`);
    assert.equal(await store.users.count({}), 1);
    other.exec('COMMIT');
    other.close();
    assert.equal((await store.users.create({ name: 'Eve' })).value.id, 2);
  });

  it('can be closed while a write waits for the lock, and the write still completes', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path, { busyTimeoutMs: 300 });
    await store.users.create({ name: 'Ada' });
    closeAfter(t, lock(path));
    const writing = rejects(store.users.create({ name: 'Bob' }), 'unavailable');
    await store.close();
    await writing;
  });
});
