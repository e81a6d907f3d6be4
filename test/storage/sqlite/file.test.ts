import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs, {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { keyed, rejects, userQuery } from '../../../src/conformance/fixture.ts';
import { postQuery } from '../../../src/conformance/kinds.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import { openStore } from '../../../src/storage/open.ts';
import { examineSqlite } from '../../../src/storage/sqlite/examine.ts';
import {
  checkWritable,
  isMountedAlone,
  maxIdleLogBytes,
  openFiles,
  watchFiles,
} from '../../../src/storage/sqlite/file.ts';
import { hasDamagedHeader } from '../../../src/storage/sqlite/log-header.ts';
import { connect, isLogUnused, schemaVersion } from '../../../src/storage/sqlite/schema.ts';
import { openSqliteStore, type SqliteStoreOptions } from '../../../src/storage/sqlite/store.ts';
import { backupSqlite, openSqliteScratch } from '../../../src/storage/sqlite/tools.ts';
import { closeAfter } from '../../support/close-after.ts';
import { failNextSync } from '../../support/failing-sync.ts';
import { mockBuiltin } from '../../support/mock-builtin.ts';
import { noOpenFiles, openFilesIn } from '../../support/open-files.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { createFile } from './new-file.ts';

async function refusal(path: string, options?: SqliteStoreOptions): Promise<DomainError> {
  try {
    await (await openSqliteStore(path, options)).close();
  } catch (error) {
    assert(error instanceof DomainError);
    return error;
  }
  throw new assert.AssertionError({ message: `${path} was opened` });
}

describe('the file of a SQLite store', () => {
  it('is created with its folders', async () => {
    const path = join(temporaryFolder(), 'a', 'b c', 'ü?#%.db');
    await (await openSqliteStore(path)).close();
    assert.ok(existsSync(path));
  });

  it('may be created by two stores that also create the same folder at once', async (t) => {
    const path = join(temporaryFolder(), 'a', 'users.db');
    for (const store of await Promise.all([openSqliteStore(path), openSqliteStore(path)])) {
      t.after(() => store.close());
      await store.ping();
    }
  });

  for (const parent of ['.', 'new']) {
    it(`is rejected when a broken disk cannot sync the new folder in ${parent}, which may be lost then`, async (t) => {
      const folder = realpathSync(temporaryFolder());
      const diskError = Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' });
      failNextSync(t, diskError, join(folder, parent));
      const { message } = await refusal(join(folder, 'new', 'newer', 'users.db'));
      assert.match(message, /: \/.* has the new entry, but a loss of power may remove it: EIO: /);
    });
  }

  it('has its temporary copies in the nearest folder that exists', async (t) => {
    const folder = temporaryFolder();
    const scratch = await openSqliteScratch(join(folder, 'not', 'yet', 'users.db'));
    t.after(() => scratch.remove());
    const store = await openStore(await scratch.next());
    await store.close();
    await scratch.remove();
    assert.deepEqual(readdirSync(folder), []);
  });

  it('is the only file in its folder after the store is closed', async () => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path);
    await store.users.create({ name: 'Ada' });
    await store.close();
    assert.deepEqual([existsSync(`${path}-wal`), existsSync(`${path}-shm`)], [false, false]);
  });

  const needsList = { skip: noOpenFiles };
  it('is open only while it is used, also by a check, an examination or a backup', needsList, async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'users.db');
    const store = await openSqliteStore(path);
    await store.users.create({ name: 'Ada' });
    checkWritable(path);
    assert.deepEqual([hasDamagedHeader(`${path}-wal`), isLogUnused(path)], [false, false]);
    assert.ok([...examineSqlite(path)].every(({ level }) => level === 'ok'));
    await backupSqlite(path, join(folder, 'backup.db'));
    await store.close();
    assert.deepEqual(openFilesIn(folder), []);
  });

  it('is used with the most durable settings', async () => {
    const { path } = await createFile();
    const db = connect(path);
    const pragma = (name: string) => Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
    assert.deepEqual([pragma('journal_mode'), pragma('synchronous'), pragma('foreign_keys')], ['wal', 2, 1]);
    assert.equal(pragma('fullfsync'), 1);
    assert.equal(pragma('journal_size_limit'), maxIdleLogBytes);
    db.close();
  });

  it('is not created again if it is removed before a connection opens it', () => {
    const folder = temporaryFolder();
    assert.throws(() => connect(join(folder, 'users.db')), /unable to open database file/);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('is used with a cache of 4 MiB, and a log that is copied into it at 16 MB', async () => {
    const { path } = await createFile();
    using db = connect(path);
    const pragma = (name: string) => Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
    // In KiB if it is negative.
    assert.equal(pragma('cache_size'), -4_096);
    assert.equal(Number(pragma('wal_autocheckpoint')) * Number(pragma('page_size')), 16_384_000);
  });

  it('is switched to write-ahead logging if another program created it without', async (t) => {
    const { folder, path } = await createFile();
    const copy = join(folder, 'copy.db');
    using db = new DatabaseSync(path);
    db.exec(`VACUUM INTO '${copy}'`);
    const store = closeAfter(t, await openSqliteStore(copy));
    await store.users.create({ name: 'Ada' });
    assert.ok(existsSync(`${copy}-wal`));
  });

  it('stores SQL in the name of a user as data', async (t) => {
    const store = closeAfter(t, await openSqliteStore(join(temporaryFolder(), 'users.db')));
    await store.users.create({ name: "x'); DELETE FROM users; --" });
    assert.equal(await store.users.count({}), 1);
  });

  describe('a file that cannot be used', () => {
    it('a SQLite file of a newer version of the service is rejected', async () => {
      const { path } = await createFile();
      const db = new DatabaseSync(path);
      db.exec('PRAGMA user_version = 1000');
      db.close();
      const bytes = readFileSync(path);
      const { kind, message } = await refusal(path);
      assert.equal(kind, 'unavailable');
      assert.ok(message.includes(path) && message.includes('newer version'), message);
      assert.deepEqual(readFileSync(path), bytes);
    });

    for (const version of [0, 1, schemaVersion - 1, schemaVersion, schemaVersion + 1, -1]) {
      it(`a SQLite file of another program with user_version ${version} is rejected`, async () => {
        const path = join(temporaryFolder(), 'other.db');
        const db = new DatabaseSync(path);
        db.exec(`
          CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT);
          CREATE TABLE posts (id);
          CREATE TABLE meta (key);
          PRAGMA user_version = ${version}`);
        db.close();
        const bytes = readFileSync(path);
        const { message } = await refusal(path);
        assert.ok(message.includes(path) && message.includes('another program'), message);
        assert.deepEqual(readFileSync(path), bytes);
      });
    }

    it('a file that is no database is rejected', async () => {
      const path = join(temporaryFolder(), 'text.db');
      writeFileSync(path, 'some text that is longer than the header of a database file. '.repeat(20));
      const { message } = await refusal(path);
      assert.ok(message.includes(path) && message.includes('not a database'), message);
    });

    it('a folder is rejected as a SQLite file, also if it is mounted', async () => {
      for (const path of [temporaryFolder(), resolve('/')]) {
        const { message } = await refusal(path);
        const problem = 'it is not a regular file: choose another path';
        assert.equal(message, `cannot open the SQLite file ${path}: ${problem}`);
      }
    });

    it('a SQLite file is rejected when its folder cannot be created', async () => {
      const file = join(temporaryFolder(), 'file');
      writeFileSync(file, '');
      const path = join(file, 'users.db');
      const { kind, message } = await refusal(path);
      assert.equal(kind, 'unavailable');
      assert.ok(message.includes(path), message);
    });

    for (const path of ['/proc/users-service/users.db', '/proc/a/b/c/users.db', '/proc/users.db']) {
      it(`the SQLite file ${path} is rejected at once, because it cannot be created`, {
        skip: !existsSync('/proc') && 'no /proc',
      }, async () => {
        const { kind, message } = await refusal(path);
        assert.equal(kind, 'unavailable');
        assert.match(message, new RegExp(`^cannot open the SQLite file ${path}: E(NOENT|ACCES): `));
      });
    }

    it('a SQLite file is rejected when it is mounted by itself', async (t) => {
      const folder = temporaryFolder();
      const [path, mounted] = [join(folder, 'users.db'), join(folder, 'mounted.db')];
      await (await openSqliteStore(path)).close();
      writeFileSync(mounted, '');
      if (spawnSync('mount', ['--bind', path, mounted]).status !== 0) return t.skip('only root can mount');
      t.after(() => spawnSync('umount', ['-l', mounted]));
      const problem = 'it is mounted by itself, but its log is not: mount the folder instead';
      assert.equal((await refusal(mounted)).message, `cannot open the SQLite file ${mounted}: ${problem}`);
      const [finding] = examineSqlite(mounted);
      assert.deepEqual([finding?.level, finding?.what], ['fail', `${mounted}: ${problem}`]);
      assert.deepEqual(readdirSync(folder), ['mounted.db', 'users.db'], 'no log must be created');
    });

    it('a SQLite file is rejected when another process keeps it locked', async (t) => {
      const path = join(temporaryFolder(), 'users.db');
      const db = closeAfter(t, new DatabaseSync(path));
      db.exec('CREATE TABLE t (x); BEGIN EXCLUSIVE');
      const opening = openSqliteStore(path, { busyTimeoutMs: 100 });
      await assert.rejects(opening, { name: 'DomainError', message: /locked/ });
    });
  });

  it('causes errors of the kind unavailable when it is damaged while in use', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const store = await openSqliteStore(path);
    for (let i = 0; i < 50; i += 1) await store.users.create({ name: `user ${i}` });
    await store.close();
    const bytes = readFileSync(path);
    const db = new DatabaseSync(path);
    const pagesOf = `SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size
      WHERE tbl_name IN ('users', 'posts')`;
    const pages = db.prepare(pagesOf).all();
    db.close();
    for (const { rootpage, page_size } of pages)
      bytes.fill(0xff, (Number(rootpage) - 1) * Number(page_size), Number(rootpage) * Number(page_size));
    writeFileSync(path, bytes);
    const damaged = closeAfter(t, await openSqliteStore(path));
    await rejects(damaged.users.get(1), 'unavailable');
    await rejects(damaged.users.list(userQuery()), 'unavailable');
    await rejects(damaged.users.count({}), 'unavailable');
    await rejects(damaged.posts(1).get(1), 'unavailable');
    await rejects(damaged.posts(1).list(postQuery()), 'unavailable');
    await rejects(damaged.posts(1).count({}), 'unavailable');
    await rejects(damaged.ping(), 'unavailable');
    await rejects(damaged.users.create({ name: 'Ada' }), 'unavailable');
  });
});

describe('a SQLite file counts as mounted by itself', () => {
  const mounts = (...places: readonly string[]) =>
    places.map((place) => `43 42 254:0 /data/users.db ${place} rw,relatime - ext4 /dev/vda rw\n`).join('');
  for (const [place, isAlone] of [
    ['/data/users.db', true],
    ['/data', false],
    ['/data/users.db.old', false],
    ['/copy/data/users.db', false],
  ] as const) {
    it(`${isAlone ? '' : 'not '}if ${place} is mounted`, () => {
      assert.equal(isMountedAlone('/data/users.db', mounts('/', place)), isAlone);
    });
  }

  it('not if its log is mounted too', () => {
    const path = '/data/users.db';
    assert.equal(isMountedAlone(path, mounts(path, `${path}-wal`, `${path}-shm`)), false);
  });

  it('not on macOS and Windows, where the system has no list of mounts', () => {
    assert.equal(isMountedAlone('/data/users.db', ''), false);
  });
});

describe('the files of a SQLite store that is in use', () => {
  async function open(t: TestContext) {
    const folder = join(temporaryFolder(), 'data');
    const path = join(folder, 'users.db');
    const store = closeAfter(t, await openSqliteStore(path));
    await store.users.create({ name: 'Ada' });
    await store.ping();
    const notReady = async (problem: string) => {
      const error = await store.ping().catch((caught: unknown) => caught);
      assert(error instanceof DomainError);
      assert.equal(error.kind, 'unavailable');
      assert.ok(String(error.cause).includes(problem), String(error.cause));
      assert.ok(!error.message.includes(path), error.message);
      return String(error.cause);
    };
    return { folder, path, store, notReady };
  }

  for (const suffix of ['', '-wal', '-shm']) {
    it(`fail writes and readiness while users.db${suffix} is missing, and recover when it is back`, async (t) => {
      const { path, store } = await open(t);
      const file = path + suffix;
      renameSync(file, `${file}.away`);
      const message = `the file ${file} has been removed or replaced since it was opened: put it back`;
      await assert.rejects(store.ping(), { kind: 'unavailable', cause: new Error(message) });
      for (let i = 0; i < 3; i += 1) await rejects(store.users.create({ name: 'Bob' }), 'unavailable');
      renameSync(`${file}.away`, file);
      assert.ok((await store.users.create({ name: 'Bob' })).value.id > 1);
      await store.ping();
    });

    it(`fail writes and readiness when users.db${suffix} was replaced by another file`, async (t) => {
      const { path, store, notReady } = await open(t);
      const file = path + suffix;
      copyFileSync(file, `${file}.other`);
      renameSync(`${file}.other`, file);
      const text = await notReady(`${file} has been removed or replaced`);
      // Only with a new users.db is it right to remove the other files.
      assert.equal(text.endsWith(': put it back'), suffix !== '', text);
      await rejects(store.users.create({ name: 'Bob' }), 'unavailable');
    });
  }

  it('need their log removed after the service has stopped, as the error says, when users.db was replaced', async (t) => {
    const { path, store, notReady } = await open(t);
    await backupSqlite(path, `${path}.backup`);
    await store.users.create({ name: 'Bob' });
    renameSync(`${path}.backup`, path);
    await notReady(
      `${path} has been removed or replaced since it was opened: put it back. If you replaced it, stop the service, remove ` +
        `${path}-wal and -shm of the old file, and start it`,
    );
    await store.close();
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix);
    const restored = closeAfter(t, await openSqliteStore(path));
    assert.equal(await restored.users.count({}), 1);
  });

  const gone = [
    ['missing', () => undefined],
    ['replaced by an empty file', (path: string) => writeFileSync(path, '')],
  ] as const;
  const copied = ['replaced by a copy', (path: string) => copyFileSync(`${path}.away`, path)] as const;
  for (const [what, replace] of [...gone, copied]) {
    it(`keep their log while users.db is ${what} when the first write opens it`, async (t) => {
      const { path, store } = await open(t);
      const second = closeAfter(t, await openSqliteStore(path));
      const log = readFileSync(`${path}-wal`);
      renameSync(path, `${path}.away`);
      replace(path);
      for (let i = 0; i < 3; i += 1) await rejects(second.users.create({ name: 'Bob' }), 'unavailable');
      assert.ok(readFileSync(`${path}-wal`).equals(log));
      renameSync(`${path}.away`, path);
      assert.equal((await second.users.create({ name: 'Bob' })).value.id, 2);
      assert.equal(await store.users.count({}), 2);
    });
  }

  for (const [what, replace] of gone) {
    it(`are not opened while users.db is ${what} and has a log, whose commits stay`, async () => {
      const folder = temporaryFolder();
      const path = join(folder, 'users.db');
      const store = await openSqliteStore(path);
      await store.users.create({ name: 'Ada' });
      for (const suffix of ['', '-wal']) copyFileSync(path + suffix, join(folder, `copy.db${suffix}`));
      await store.close();
      const copy = join(folder, 'copy.db');
      renameSync(copy, `${copy}.away`);
      replace(copy);
      const { message } = await refusal(copy);
      const problem = /its log \S+copy\.db-wal exists, but the file itself is missing or empty: put it back/;
      assert.match(message, problem);
      await assert.rejects(
        backupSqlite(copy, join(folder, 'backup.db')),
        /there is no such file$|missing or empty/,
      );
      assert.equal(existsSync(copy), what !== 'missing');
      renameSync(`${copy}.away`, copy);
      const opened = await openSqliteStore(copy);
      assert.equal(await opened.users.count({}), 1);
      await opened.close();
    });
  }

  it('are not opened while the header of the log is damaged, whose commits stay', async (t) => {
    const { path } = await open(t);
    const copy = `${path}.copy`;
    const log = `${copy}-wal`;
    for (const suffix of ['', '-wal']) copyFileSync(path + suffix, copy + suffix);
    for (const offset of [0, 16, 24, 31]) {
      overwrite(log, offset);
      const problem = `the header of its log ${log} is damaged, so SQLite would ignore its writes: restore a backup, or remove the log`;
      assert.equal((await refusal(copy)).message, `cannot open the SQLite file ${copy}: ${problem}`);
      await assert.rejects(backupSqlite(copy, `${copy}.backup`), { cause: new Error(problem) });
      assert.ok(examineSqlite(copy).some(({ level, what }) => level === 'fail' && what.endsWith(problem)));
      overwrite(log, offset);
    }
    const opened = closeAfter(t, await openSqliteStore(copy));
    assert.equal(await opened.users.count({}), 1);
  });

  it('are opened after a loss of power has left only a part of the header of a new log', async () => {
    const { path } = await createFile();
    for (const bytes of [20, 32]) {
      writeFileSync(`${path}-wal`, Buffer.alloc(bytes));
      await (await openSqliteStore(path)).close();
    }
  });

  it('fail writes and readiness while their folder is renamed', async (t) => {
    const { folder, store, notReady } = await open(t);
    renameSync(folder, `${folder}.away`);
    await notReady('has been removed or replaced');
    await rejects(store.users.create({ name: 'Bob' }), 'unavailable');
    renameSync(`${folder}.away`, folder);
    await store.users.create({ name: 'Bob' });
    await store.ping();
  });

  for (const [part, keptBytes] of [
    ['the whole log', () => 0],
    ['all of the log but 4 bytes', () => 4],
    ['all of the log but 31 bytes', () => 31],
    ['the log behind its header', () => 32],
    ['the last page of the log', (bytes: number) => bytes - 4_096],
  ] as const) {
    it(`fail writes and readiness after ${part} was cut off`, async (t) => {
      const { path, store } = await open(t);
      await store.users.create({ name: 'Bob' });
      truncateSync(`${path}-wal`, keptBytes(statSync(`${path}-wal`).size));
      for (let i = 0; i < 3; i += 1) await rejects(store.users.create({ name: 'Eve' }), 'unavailable');
      const error = await store.users.create({ name: 'Eve' }).catch((caught: unknown) => caught);
      assert(error instanceof DomainError);
      assert.equal(
        String(error.cause),
        `Error: the file ${path}-wal has been cut short or overwritten since it was opened: ` +
          'copy its folder, then stop the service with SIGTERM',
      );
      await rejects(store.ping(), 'unavailable');
    });
  }

  it('accept writes after another program checkpointed and emptied the log, and a write changed nothing', async (t) => {
    const { path, store } = await open(t);
    await store.users.create({ name: 'Bob' }, keyed('key'));
    const unchanged = [
      () => store.users.delete(999),
      () => store.users.update(1, { name: 'Ada' }),
      () => store.users.create({ name: 'Bob' }, keyed('key')),
    ];
    for (const write of unchanged) {
      using other = new DatabaseSync(path);
      other.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      await write();
      assert.equal(statSync(`${path}-wal`).size, 0);
      await store.users.create({ name: 'Eve' });
      await store.ping();
    }
    assert.equal(await store.users.count({}), 5);
  });

  it('fail writes after the log was truncated, also one that changes nothing', async (t) => {
    const { path, store } = await open(t);
    // The pages that this write reads are cached, so it would succeed without the log.
    await store.users.delete(999);
    truncateSync(`${path}-wal`);
    for (let i = 0; i < 3; i += 1) await rejects(store.users.delete(999), 'unavailable');
    await rejects(store.users.create({ name: 'Eve' }), 'unavailable');
    await rejects(store.ping(), 'unavailable');
  });

  it('write nothing after the log was truncated while it was read, although all of it had been copied', async (t) => {
    const { path, store } = await open(t);
    await store.users.create({ name: 'Bob' });
    using reader = new DatabaseSync(path);
    reader.exec('BEGIN; SELECT count(*) FROM users');
    using other = new DatabaseSync(path);
    other.exec('PRAGMA wal_checkpoint');
    truncateSync(`${path}-wal`);
    await rejects(store.users.create({ name: 'Eve' }), 'unavailable');
    assert.equal(statSync(`${path}-wal`).size, 0);
  });

  it('keep what is in users.db when the log was truncated before a write, and the store closes', async (t) => {
    const path = join(temporaryFolder(), 'users.db');
    const earlier = await openSqliteStore(path);
    await earlier.users.create({ name: 'Ada' });
    await earlier.close();
    const store = await openSqliteStore(path);
    // Pages that the next write does not change.
    await store.posts(1).create({ title: 'Notes', body: '' });
    truncateSync(`${path}-wal`);
    await rejects(store.users.create({ name: 'Eve' }), 'unavailable');
    await store.close();
    const reopened = closeAfter(t, await openSqliteStore(path));
    assert.deepEqual(await reopened.users.get(1), { id: 1, name: 'Ada', version: 1 });
    await backupSqlite(path, `${path}.backup`);
  });

  for (const [what, damage] of [
    ['the log is removed', (path: string) => rmSync(`${path}-wal`)],
    ['the index of the log is removed', (path: string) => rmSync(`${path}-shm`)],
    ['the file is removed', (path: string) => rmSync(path)],
    ['the log is truncated', (path: string) => truncateSync(`${path}-wal`)],
    ['the log is replaced', (path: string) => renameSync(copyOf(`${path}-wal`), `${path}-wal`)],
    ['a salt of the log is overwritten', (path: string) => overwrite(`${path}-wal`, 16)],
  ] as const) {
    it(`acknowledge no further write when ${what} at any moment of a load`, async (t) => {
      for (let round = 0; round < 3; round += 1) {
        const { path, store } = await open(t);
        let isDamaged = false;
        const late: string[] = [];
        const writers = Array.from({ length: 8 }, async (_, writer) => {
          for (let i = 0; i < 200; i += 1) {
            const isLate = isDamaged;
            try {
              await store.users.create({ name: `user ${writer} ${i}` });
            } catch {
              return;
            }
            if (isLate) late.push(`user ${writer} ${i}`);
          }
        });
        for (let turn = 0; turn < 5 + round * 3; turn += 1)
          await new Promise((resolve) => setImmediate(resolve));
        damage(path);
        isDamaged = true;
        await Promise.all(writers);
        assert.deepEqual(late, []);
        await rejects(store.ping(), 'unavailable');
      }
    });
  }

  for (const [what, suffixes] of [
    ['the index of the log is missing (simulation, seed 704)', ['-shm']],
    ['the log and its index are missing', ['-shm', '-wal']],
  ] as const) {
    it(`are not opened again while ${what}`, async (t) => {
      const path = join(temporaryFolder(), 'users.db');
      const store = closeAfter(t, await openSqliteStore(path));
      await store.users.create({ name: 'Ada' });
      for (const suffix of suffixes) renameSync(path + suffix, `${path}-moved${suffix}`);
      const { kind, message } = await refusal(path, { busyTimeoutMs: 0 });
      assert.equal(kind, 'unavailable');
      assert.match(message, /locked by another process, and \S+\/users\.db-shm is missing$/);
      assert.equal(existsSync(`${path}-shm`), false, 'a second index would let processes overwrite commits');
      for (const suffix of suffixes) renameSync(`${path}-moved${suffix}`, path + suffix);
      const second = closeAfter(t, await openSqliteStore(path));
      assert.equal(await second.users.count({}), 1);
      await store.users.create({ name: 'Bob' });
      assert.equal(await second.users.count({}), 2);
    });
  }

  it('are opened after they were copied without the index of the log', async (t) => {
    const folder = temporaryFolder();
    const [path, copy] = [join(folder, 'users.db'), join(folder, 'copy.db')];
    const store = closeAfter(t, await openSqliteStore(path));
    await store.users.create({ name: 'Ada' });
    for (const suffix of ['', '-wal']) copyFileSync(path + suffix, copy + suffix);
    const copied = closeAfter(t, await openSqliteStore(copy));
    assert.equal(await copied.users.count({}), 1);
  });
});

function copyOf(file: string): string {
  copyFileSync(file, `${file}.copy`);
  return `${file}.copy`;
}

/** Inverts one byte of a file. */
function overwrite(path: string, offset: number): void {
  const byte = readFileSync(path).readUInt8(offset);
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.of(255 - byte), 0, 1, offset);
  closeSync(file);
}

/** The header of a log, with its checksums in a byte order. */
function headerOf(salt: number, order: 'LE' | 'BE' = 'LE'): Buffer {
  const header = Buffer.alloc(32);
  header.writeUInt32BE(order === 'LE' ? 0x377f0682 : 0x377f0683);
  header.writeUInt32BE(salt, 16);
  const sums: [number, number] = [0, 0];
  for (let word = 0; word < 6; word += 1) {
    const value = header[`readUInt32${order}`](word * 4);
    sums[word % 2] = (sums[0] + sums[1] + value) >>> 0;
  }
  for (const [i, sum] of sums.entries()) header.writeUInt32BE(sum, 24 + i * 4);
  return header;
}

describe('the check for a damaged log of SQLite', () => {
  const logHeaderBytes = 32;

  /** A log without frames, and the check of it. */
  function watch() {
    const path = join(temporaryFolder(), 'users.db');
    const log = `${path}-wal`;
    for (const file of [path, log, `${path}-shm`]) writeFileSync(file, '');
    const restart = (salt: number) => writeFileSync(log, headerOf(salt), { flag: 'r+' });
    const watchLog = () => {
      const watched = watchFiles(openFiles(path, path), () => true);
      return () => {
        watched.checkLength();
        watched.check();
      };
    };
    const check = watchLog();
    restart(1);
    return { log, restart, check, watchLog };
  }

  it('passes while another process restarts a long log and shortens it at the end of its commit', () => {
    const { log, restart, check } = watch();
    truncateSync(log, 2 * maxIdleLogBytes);
    check();
    check();
    restart(2);
    check();
    truncateSync(log, maxIdleLogBytes);
    check();
    restart(3);
    truncateSync(log, maxIdleLogBytes - 1);
    check();
    truncateSync(log, maxIdleLogBytes - 2);
    assert.throws(check, DomainError);
  });

  for (const moment of ['before', 'after'] as const) {
    it(`passes if another process empties and restarts the log ${moment} its header is read`, (t) => {
      const { log, restart, check } = watch();
      truncateSync(log, 8_000);
      check();
      const { readSync } = fs;
      const { restore } = mockBuiltin(t, fs, 'readSync', (...args: Parameters<typeof readSync>) => {
        if (moment === 'after') readSync(...args);
        truncateSync(log);
        restart(2);
        return moment === 'after' ? logHeaderBytes : readSync(...args);
      });
      check();
      restore();
      check();
    });
  }

  it('passes when a read overlaps with the write of another header', (t) => {
    const { restart, check } = watch();
    check();
    restart(2);
    const { readSync } = fs;
    let isTorn = true;
    mockBuiltin(t, fs, 'readSync', (...args: Parameters<typeof readSync>) => {
      const bytes = readSync(...args);
      if (isTorn) headerOf(1).copy(args[1] as Buffer, 24, 24);
      isTorn = false;
      return bytes;
    });
    check();
  });

  it('fails when a long log was shortened without a restart', () => {
    const { log, check } = watch();
    truncateSync(log, 2 * maxIdleLogBytes);
    check();
    check();
    truncateSync(log, 2 * maxIdleLogBytes - 1);
    assert.throws(check, DomainError);
  });

  it('fails when the index of the log was removed before it was first seen', () => {
    const path = join(temporaryFolder(), 'users.db');
    for (const file of [path, `${path}-wal`]) writeFileSync(file, '');
    assert.throws(watchFiles(openFiles(path, path), () => true).check, DomainError);
  });

  it('fails when the log was replaced by a few bytes', () => {
    const { log, check } = watch();
    check();
    writeFileSync(log, 'x');
    assert.throws(check, DomainError);
  });

  it('before a file is opened passes when another process has removed or emptied the log meanwhile', () => {
    const log = join(temporaryFolder(), 'users.db-wal');
    assert.equal(hasDamagedHeader(log), false);
    writeFileSync(log, '');
    assert.equal(hasDamagedHeader(log), false);
  });

  it('passes with a log of a processor with the other byte order', () => {
    const { log, check } = watch();
    writeFileSync(log, headerOf(1, 'BE'));
    check();
  });

  it('fails when the log was shortened before the first check', () => {
    const { log, watchLog } = watch();
    truncateSync(log, 8_000);
    const check = watchLog();
    truncateSync(log, 7_999);
    assert.throws(check, DomainError);
  });

  for (const offset of [0, 16, 24, 31]) {
    it(`fails when byte ${offset} of the log was overwritten, until it is restored`, () => {
      const { log, check } = watch();
      check();
      overwrite(log, offset);
      assert.throws(check, DomainError);
      overwrite(log, offset);
      check();
    });
  }

  it('fails when the log was shortened after a single check', () => {
    const { log, check } = watch();
    truncateSync(log, 8_000);
    check();
    truncateSync(log, 7_999);
    assert.throws(check, DomainError);
  });
});

describe('the access rights of the files of a SQLite store', () => {
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

  it('are limited to their owner, also for folders that the store created', async (t) => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    const path = join(folder, 'made', 'too', 'users.db');
    const store = closeAfter(t, await openSqliteStore(path));
    await store.users.create({ name: 'Ada' });
    assert.deepEqual([path, `${path}-wal`, `${path}-shm`].map(modeOf), ['600', '600', '600']);
    assert.deepEqual([dirname(path), dirname(dirname(path)), folder].map(modeOf), ['700', '700', '755']);
    await backupSqlite(path, join(folder, 'backup.db'));
    assert.equal(modeOf(join(folder, 'backup.db')), '600');
  });

  it('are not changed for existing files and folders', async () => {
    const { path } = await createFile();
    chmodSync(path, 0o640);
    await (await openSqliteStore(path)).close();
    assert.equal(modeOf(path), '640');
  });

  for (const what of ['file', 'folder', 'log'] as const) {
    it(`are checked at the start and by a backup: a read-only ${what} is reported with the user`, async () => {
      const { folder, path } = await createFile();
      writeFileSync(`${path}-wal`, '');
      for (const place of [folder, path, `${path}-wal`]) chmodSync(place, place === folder ? 0o777 : 0o666);
      const place = { file: path, folder, log: `${path}-wal` }[what];
      chmodSync(dirname(folder), 0o755);
      chmodSync(place, what === 'folder' ? 0o555 : 0o444);
      // Root can write everywhere, so run the process as another user.
      const user = userInfo().uid === 0 ? 'process.setgid(65_534); process.setuid(65_534);' : '';
      for (const [file, call] of [
        ['store', `openSqliteStore('${path}')`],
        ['tools', `backupSqlite('${path}', '/nowhere/backup.db')`],
      ] as const) {
        const url = new URL(`../../../src/storage/sqlite/${file}.ts`, import.meta.url);
        // Change the user after the import, because the other user may have no access to the checkout.
        const script = `const module = await import('${url}'); ${user} await module.${call};`;
        const args = ['--input-type=module', '-e', script];
        const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
        assert.equal(status, 1, String(stderr));
        assert.match(stderr, new RegExp(`cannot .* ${path}.*: the user \\S+ cannot write to ${place}\n`));
      }
      chmodSync(folder, 0o755);
    });
  }
});

for (const path of [':memory:', 'sqlite:users.db', 'sqlite:/srv/users.db']) {
  it(`openSqliteStore rejects ${path}, which is not the path of a file, and creates nothing`, async (t) => {
    const folder = temporaryFolder();
    const directory = process.cwd();
    t.after(() => process.chdir(directory));
    process.chdir(folder);
    const message = 'path must be that of a file, not a URL; a store in memory is memory: in openStore';
    await assert.rejects(openSqliteStore(path), { kind: 'invalid', message });
    assert.deepEqual(readdirSync(folder), []);
  });
}

describe('options of a SQLite store', () => {
  const bad: readonly SqliteStoreOptions[] = [
    { busyTimeoutMs: -1 },
    { busyTimeoutMs: 1.5 },
    { busyTimeoutMs: 60_001 },
    { busyTimeoutMs: Number.NaN },
    { maxPendingWrites: 0 },
    { maxPendingWrites: Number.POSITIVE_INFINITY },
    { idempotencyTtlMs: 0 },
  ];
  for (const options of bad) {
    const [[name, value] = []] = Object.entries(options);
    it(`reject ${name} ${value} with its name and range`, async () => {
      const path = join(temporaryFolder(), 'users.db');
      const message = new RegExp(`^${name} must be a whole number from \\d+ to \\d+, not ${value}$`);
      await assert.rejects(openSqliteStore(path, options), { name: 'RangeError', message });
      assert.equal(existsSync(path), false);
    });
  }
});
