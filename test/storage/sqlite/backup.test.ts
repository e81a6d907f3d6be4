import assert from 'node:assert/strict';
import fs, {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import promises from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { describeError } from '../../../src/commands/errors.ts';
import { addUsers, rejects, userQuery } from '../../../src/conformance/fixture.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { backupSqlite } from '../../../src/storage/sqlite/tools.ts';
import { closeAfter } from '../../support/close-after.ts';
import { failNextSync } from '../../support/failing-sync.ts';
import { mockBuiltin } from '../../support/mock-builtin.ts';
import { temporaryFolder } from '../../support/temporary.ts';
import { runTool } from '../../support/tool.ts';
import { createFile } from './new-file.ts';

const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

describe('a backup of a SQLite file', () => {
  it('contains all records of the file, and can be opened as a store', async (t) => {
    const folder = temporaryFolder();
    const store = closeAfter(t, await openSqliteStore(join(folder, 'users.db')));
    await addUsers(store, 'Ada:admin', 'Bob', 'gone');
    await store.users.delete(3);
    await store.posts(1).create({ title: 'title', body: 'line 1\nline 2' });
    const { next: after = [] } = await store.users.list(userQuery('limit=1'));
    const path = relative('.', join(folder, 'users.db'));
    await backupSqlite(path, join(folder, 'backup.db'));
    const files = readdirSync(folder).filter((name) => name.includes('backup'));
    assert.deepEqual(files, ['backup.db']);
    const copy = closeAfter(t, await openSqliteStore(join(folder, 'backup.db')));
    assert.deepEqual(await copy.summary(), await store.summary());
    assert.deepEqual(await copy.exportRows('users', 0, 10), await store.exportRows('users', 0, 10));
    assert.deepEqual(await copy.exportRows('posts', 0, 10), await store.exportRows('posts', 0, 10));
    const { items } = await copy.users.list({ ...userQuery(), start: { after } });
    assert.equal(items.length, 1, 'the backup continues after the same position');
  });

  it('is consistent while the file is written, and ends', async (t) => {
    const folder = temporaryFolder();
    const store = closeAfter(t, await openSqliteStore(join(folder, 'users.db')));
    // Thousands of pages, so that the backup needs several steps.
    const filler = Array.from({ length: 2_000 }, (_, i) => ({ id: i + 1, name: `user ${i}`, version: 1 }));
    await store.importRows('users', filler);
    await store.importRows(
      'posts',
      filler.map(({ id }) => ({ id, userId: id, title: 'title', body: 'x'.repeat(8_000), version: 1 })),
    );
    let backedUp = false;
    let written = 0;
    const writing = (async () => {
      while (!backedUp) {
        // Both creations of a pair are in one transaction.
        await Promise.all([store.users.create({ name: 'pair' }), store.users.create({ name: 'pair' })]);
        written += 2;
      }
    })();
    const progress: [number, number][] = [];
    const target = join(folder, 'backup.db');
    await backupSqlite(join(folder, 'users.db'), target, (...step) => progress.push(step));
    backedUp = true;
    await writing;
    assert.ok(written > 0, 'no write happened during the backup');
    assert.ok(progress.length > 2, `${progress.length} steps`);
    const pages = progress.at(-1)?.[1];
    assert.ok(progress.every(([done, total], i) => total === pages && done >= (progress[i - 1]?.[0] ?? 0)));
    assert.deepEqual(progress.at(-1), [pages, pages]);
    const db = closeAfter(t, new DatabaseSync(target, { readOnly: true }));
    const { pairs } = { ...db.prepare("SELECT count(*) AS pairs FROM users WHERE name = 'pair'").get() };
    assert.equal(Number(pairs) % 2, 0);
    assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
  });

  it('also works for a file that no process has open', async (t) => {
    const folder = temporaryFolder();
    const store = await openSqliteStore(join(folder, 'users.db'));
    await addUsers(store, 'Ada');
    await store.close();
    await backupSqlite(join(folder, 'users.db'), join(folder, 'backup.db'));
    const copy = closeAfter(t, await openSqliteStore(join(folder, 'backup.db')));
    assert.equal(await copy.users.count({}), 1);
  });

  it('is rejected while the index of the log is missing, and creates no other index', async (t) => {
    const folder = temporaryFolder();
    const [source, target] = [join(folder, 'users.db'), join(folder, 'backup.db')];
    const store = closeAfter(t, await openSqliteStore(source));
    await addUsers(store, 'Ada');
    renameSync(`${source}-shm`, `${source}-moved`);
    const message = /locked by another process, and \S+\/users\.db-shm is missing$/;
    await assert.rejects(backupSqlite(source, target), { kind: 'unavailable', message });
    assert.deepEqual(readdirSync(folder).toSorted(), ['users.db', 'users.db-moved', 'users.db-wal']);
    renameSync(`${source}-moved`, `${source}-shm`);
    await backupSqlite(source, target);
    const copy = closeAfter(t, await openSqliteStore(target));
    assert.equal(await copy.users.count({}), 1);
  });

  it('waits for a process that is opening the file', async (t) => {
    const { folder, path: source } = await createFile();
    const opening = new DatabaseSync(source);
    opening.exec('PRAGMA locking_mode = EXCLUSIVE; SELECT 1 FROM sqlite_schema');
    const backup = backupSqlite(source, join(folder, 'backup.db'));
    // The backup creates its temporary file, and then tries to open the source, before other code can run.
    while (!readdirSync(folder).some((name) => name.endsWith('.part')) && !t.signal.aborted)
      await new Promise((resolve) => setImmediate(resolve));
    opening.close();
    await backup;
    assert.ok(existsSync(join(folder, 'backup.db')));
  });

  for (const [code, reason, problem] of [
    ['EROFS', 'read-only file system', 'the disk of \\S+users\\.db is mounted read-only'],
    ['EPERM', 'operation not permitted', 'the user \\S+ cannot write to \\S+users\\.db'],
  ] as const) {
    it(`is rejected of a file that cannot be written (${code}), beside which it could not remove the log`, async (t) => {
      const { folder, path } = await createFile();
      mockBuiltin(t, fs, 'accessSync', () => {
        throw Object.assign(new Error(`${code}: ${reason}`), { code });
      });
      const backup = backupSqlite(path, join(folder, 'backup.db'));
      await assert.rejects(backup, (error) => {
        assert.match(describeError(error), new RegExp(`: ${problem}: ${code}: ${reason}$`));
        return true;
      });
    });
  }

  it('is rejected of a damaged file, and leaves no file', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'users.db');
    const store = await openSqliteStore(path);
    await addUsers(store, ...Array.from({ length: 200 }, (_, i) => `${i} ${'x'.repeat(90)}`));
    await store.close();
    // A page of a table or an index, after those of the schema.
    const pageBytes = 4_096;
    const damaged = readFileSync(path).fill('x', 12 * pageBytes, 13 * pageBytes);
    writeFileSync(path, damaged);
    const message = /: (the database is damaged: |database disk image is malformed)/;
    await assert.rejects(backupSqlite(path, join(folder, 'backup.db')), { kind: 'unavailable', message });
    assert.deepEqual(readdirSync(folder), ['users.db']);
    assert.ok(readFileSync(path).equals(damaged));
  });

  const skip = process.platform === 'win32' && 'Windows has no ulimit';
  it('leaves no file when the disk is full, and reports the code of SQLite', { skip }, async () => {
    const folder = temporaryFolder();
    const store = await openSqliteStore(join(folder, 'users.db'));
    await addUsers(store, 'Ada');
    const post = { userId: 1, title: 'title', body: 'x'.repeat(10_000), version: 1 };
    const posts = Array.from({ length: 500 }, (_, i) => ({ id: i + 1, ...post }));
    await store.importRows('posts', posts);
    await store.close();
    // 1,000 blocks of 512 or 1,024 bytes, for each file of the process.
    const script = 'ulimit -f 1000; exec "$0" "$1" backup backup.db --database sqlite:users.db';
    const { code, stderr } = await runTool('sh', ['-c', script, process.execPath, main], { cwd: folder });
    assert.equal(code, 1);
    const problem =
      /^users-service: cannot back up \S+users\.db to \S+backup\.db: d.* \(code \d+ of SQLite\)\n$/;
    assert.match(stderr, problem);
    assert.deepEqual(readdirSync(folder), ['users.db']);
  });

  for (const code of ['EBADF', 'EINVAL', 'ENOTSUP', 'EACCES', 'EPERM']) {
    it(`succeeds also in a folder that cannot be synced, with ${code}`, async (t) => {
      const { folder, path } = await createFile();
      failNextSync(t, Object.assign(new Error(code), { code }), folder);
      await backupSqlite(path, join(folder, 'backup.db'));
      assert.deepEqual(readdirSync(folder).toSorted(), ['backup.db', 'users.db']);
    });
  }

  it('is reported as complete, but not safe, when a broken disk cannot sync its folder', async (t) => {
    const { folder, path } = await createFile();
    failNextSync(t, Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' }), folder);
    const message = /: \/.* has the new entry, but a loss of power may remove it: EIO: i\/o error, fsync$/;
    await assert.rejects(backupSqlite(path, join(folder, 'backup.db')), { kind: 'unavailable', message });
    assert.deepEqual(readdirSync(folder).toSorted(), ['backup.db', 'users.db']);
  });

  it('has the outcome of the copy when no temporary file can be removed', async (t) => {
    const { folder, path } = await createFile();
    mockBuiltin(t, promises, 'rm', () => Promise.reject(new Error('the disk is broken')));
    const stop = () => {
      throw new Error('stopped');
    };
    await assert.rejects(backupSqlite(path, join(folder, 'backup.db'), stop), /: stopped$/);
    await backupSqlite(path, join(folder, 'backup.db'));
  });

  it('does not overwrite a file that is created during the copy', async () => {
    const { folder, path: source } = await createFile();
    const target = join(folder, 'backup.db');
    const backup = backupSqlite(source, target, () => writeFileSync(target, 'precious'));
    await assert.rejects(backup, /backup\.db: the target exists already$/);
    assert.equal(readFileSync(target, 'utf8'), 'precious');
  });

  for (const suffix of ['-wal', '-journal']) {
    it(`is rejected beside the file backup.db${suffix} of an earlier database, which would damage it`, async () => {
      const { folder, path: source } = await createFile();
      const target = join(folder, 'backup.db');
      writeFileSync(target + suffix, '');
      const message = new RegExp(`\\S+/backup\\.db${suffix} of an earlier file exists$`);
      await assert.rejects(backupSqlite(source, target), { kind: 'unavailable', message });
      assert.deepEqual(readdirSync(folder).toSorted(), [`backup.db${suffix}`, 'users.db']);
      rmSync(target + suffix);
      await backupSqlite(source, target);
    });
  }

  const refusals: readonly (readonly [what: string, source: string, target: string, problem: RegExp])[] = [
    ['of a file that is missing', 'missing.db', 'backup.db', /missing\.db to .*: there is no such file$/],
    ['of a file that is not a database', 'text.txt', 'backup.db', /not a database/],
    ['of a file that is empty', 'empty.db', 'backup.db', /empty\.db.*it has no tables of this service$/],
    ['of a file of another program', 'other.db', 'backup.db', /it is the database of another program$/],
    ['onto an existing file', 'users.db', 'text.txt', /text\.txt.*exists already/],
    ['onto a folder', 'users.db', 'folder', /folder.*exists already/],
    ['onto a link that leads nowhere', 'users.db', 'link', /link.*exists already/],
    ['onto itself', 'users.db', 'users.db', /exists already/],
    ['into a folder that is missing', 'users.db', 'missing/backup.db', /missing\/backup\.db/],
  ];
  for (const [what, source, target, problem] of refusals) {
    it(`is rejected ${what}, and leaves no file`, async () => {
      const { folder } = await createFile();
      const text = 'text that is longer than the header of a database. ';
      writeFileSync(join(folder, 'text.txt'), text.repeat(10));
      writeFileSync(join(folder, 'empty.db'), '');
      const other = new DatabaseSync(join(folder, 'other.db'));
      other.exec('CREATE TABLE x (y)');
      other.close();
      mkdirSync(join(folder, 'folder'));
      symlinkSync('nowhere', join(folder, 'link'));
      const backup = backupSqlite(join(folder, source), join(folder, target));
      await assert.rejects(backup, { kind: 'unavailable', message: problem });
      await rejects(backup, 'unavailable');
      const files = ['empty.db', 'folder', 'link', 'other.db', 'text.txt', 'users.db'];
      assert.deepEqual(readdirSync(folder).toSorted(), files);
      assert.equal(readlinkSync(join(folder, 'link')), 'nowhere');
      assert.equal(existsSync(join(folder, 'backup.db')), false);
    });
  }
});
