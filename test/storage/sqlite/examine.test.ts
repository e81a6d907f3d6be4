import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs, {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { examineSqlite, examineVersion } from '../../../src/storage/sqlite/examine.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import type { Finding } from '../../../src/storage/tools.ts';
import { findNobody } from '../../kit/postgres-binaries.ts';
import { closeAfter } from '../../support/close-after.ts';
import { mockBuiltin } from '../../support/mock-builtin.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const original = join(temporaryFolder(), 'users.db');
const filling = await openSqliteStore(original);
const names = Array.from({ length: 400 }, (_, i) => `${i} ${'x'.repeat(150)}`);
await Promise.all(names.map((name) => filling.users.create({ name })));
await filling.close();

/** A file with a few users. */
function makeFile(folder = temporaryFolder()): string {
  const path = join(folder, 'users ?#%.db');
  copyFileSync(original, path);
  return path;
}

/** The names, sizes and times of all files in the folder of a file. */
function stateBeside(path: string): string[] {
  const folder = dirname(path);
  return readdirSync(folder).map((name) => {
    const { size, mtimeNs, ino, mode } = statSync(join(folder, name), { bigint: true });
    return `${name} ${size} ${mtimeNs} ${ino} ${mode}`;
  });
}

/** The problems found in a file, which must not be changed. */
function problemsOf(path: string): string[] {
  const before = stateBeside(path);
  const findings = examineSqlite(path);
  assert.deepEqual(stateBeside(path), before, 'the examination has changed a file');
  for (const { level, remedy } of findings) assert.equal(remedy === '', level === 'ok');
  return problems(findings).map((line) => line.replaceAll(dirname(path), ''));
}

function problems(findings: readonly Finding[]): string[] {
  return findings.filter(({ level }) => level !== 'ok').map(({ level, what }) => `${level} ${what}`);
}

/** A copy of the files of a store that is in use, as after a kill of its process. */
async function copyInUse(t: TestContext): Promise<string> {
  const path = makeFile();
  const store = closeAfter(t, await openSqliteStore(path));
  await store.users.create({ name: 'Ada' });
  const folder = temporaryFolder();
  cpSync(dirname(path), folder, { recursive: true });
  return join(folder, basename(path));
}

describe('the examination of a SQLite file', () => {
  it('finds no problem in a healthy file, and reports each check', () => {
    const path = makeFile();
    assert.deepEqual(problemsOf(path), []);
    const text = examineSqlite(path).map(({ what }) => what.replaceAll(path, 'FILE'));
    assert.match(
      text.join('\n'),
      /^FILE is not open to every user\nthe disk of FILE \(.* MiB\) has \d.* MiB free\nSQLite 3\S+\nFILE-wal is empty\nthe schema has version \d+\nFILE passes/,
    );
  });

  it('accepts a slash at the end of the path, as the service does', () => {
    assert.deepEqual(problems(examineSqlite(`${makeFile()}/`)), []);
  });

  it('finds no problem in a file that is in use, and reads its log', async (t) => {
    const path = makeFile();
    const store = closeAfter(t, await openSqliteStore(path));
    await store.users.create({ name: 'Ada' });
    assert.deepEqual(problemsOf(path), []);
    assert.ok(examineSqlite(path).some(({ what }) => what.endsWith('-wal has the latest writes (0 MiB)')));
    await store.users.create({ name: 'Grace' });
  });

  it('finds no problem in a file whose service was killed', async (t) => {
    const copy = await copyInUse(t);
    assert.deepEqual(problemsOf(copy), []);
    rmSync(`${copy}-shm`);
    const [problem = '', ...others] = problemsOf(copy);
    assert.deepEqual(others, []);
    assert.match(
      problem,
      /^warn .*-wal has the latest writes, but .*-shm is missing, so the data is not checked$/,
    );
    // The file alone may have half of the data, so it is not damaged.
    overwritePages(copy);
    assert.deepEqual(problemsOf(copy), [problem]);
  });

  it('reports an unfinished write of a program without a write-ahead log, not as damage', async (t) => {
    const path = makeFile();
    const other = closeAfter(t, new DatabaseSync(path));
    // With so small a cache, a part of the write is already in the file.
    other.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; UPDATE users SET role = 'admin'");
    const copy = join(temporaryFolder(), basename(path));
    cpSync(dirname(path), dirname(copy), { recursive: true });
    const problem = `warn /${basename(path)}-journal has an unfinished write, so the data is not checked`;
    assert.deepEqual(problemsOf(copy), [problem]);
    const store = closeAfter(t, await openSqliteStore(copy));
    assert.equal(await store.users.count({ role: 'admin' }), 0);
    // Some programs empty a journal after the write, and keep it.
    writeFileSync(`${copy}-journal`, '');
    assert.deepEqual(problemsOf(copy), []);
  });

  it('reports a file that is written during its check as damaged only if a process has it open', async (t) => {
    const path = makeFile();
    const { prepare } = DatabaseSync.prototype;
    t.mock.method(DatabaseSync.prototype, 'prepare', function (this: DatabaseSync, sql: string) {
      if (sql.includes('quick_check')) overwritePages(path);
      return prepare.call(this, sql);
    });
    utimesSync(path, 1e9, 1e9);
    assert.deepEqual(problems(examineSqlite(path)), [`warn ${path} was written during its check`]);
    copyFileSync(original, path);
    closeAfter(t, await openSqliteStore(path));
    utimesSync(path, 1e9, 1e9);
    const [damage = '', ...others] = problems(examineSqlite(path));
    assert.match(damage, /^fail .*users \?#%\.db cannot be read: /);
    assert.deepEqual(others, []);
  });

  it('reports a file that another process has locked, not as damaged', (t) => {
    const path = makeFile();
    const db = closeAfter(t, new DatabaseSync(path));
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE more (id)');
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT');
    assert.deepEqual(problemsOf(path), [`warn /${basename(path)} is locked by another process`]);
  });

  for (const [what, replace] of [
    ['missing', () => undefined],
    ['empty', (path: string) => writeFileSync(path, '')],
  ] as const) {
    it(`reports a file that is ${what} beside its log, and keeps the log`, async (t) => {
      const copy = await copyInUse(t);
      const log = readFileSync(`${copy}-wal`);
      rmSync(copy);
      replace(copy);
      const [problem = '', ...others] = problemsOf(copy);
      assert.deepEqual(others, []);
      assert.match(problem, /^fail .*-wal exists, but the file itself is missing or empty: put it back/);
      assert.ok(readFileSync(`${copy}-wal`).equals(log));
    });
  }

  it('accepts a file that does not exist yet, without creating its folder, and reports the version of SQLite', () => {
    const folder = temporaryFolder();
    for (const path of [join(folder, 'a', 'b', 'users.db'), join(folder, 'users.db')]) {
      const findings = examineSqlite(path);
      assert.deepEqual(problems(findings), []);
      assert.ok(findings.some(({ what }) => what.startsWith('SQLite 3.')));
    }
    assert.deepEqual(readdirSync(folder), []);
  });

  const pragma = (text: string) => (path: string) => run(path, `PRAGMA ${text}`);
  const mode = (bits: number) => (path: string) => chmodSync(path, bits);
  const damages: readonly [what: string, damage: (path: string) => void, problem?: RegExp][] = [
    [
      'is not a database',
      (path) => writeFileSync(path, 'text '.repeat(1_000)),
      /^fail .* cannot be read: file is not a/,
    ],
    ['has pages of another file', overwritePages, /^fail .* cannot be read: /],
    ['has lost a page', losePage, /^fail .* cannot be read: .* in database main .* page 10: .*$/],
    ['is truncated', (path) => fs.truncateSync(path, 8_192), /^fail .* cannot be read: /],
    [
      'has lost the row of an index',
      deleteFromIndex,
      /^fail .* cannot be read: wrong # of entries in index users_by_/,
    ],
    ['was written by a newer release', pragma('user_version = 99'), /^fail .* a newer version/],
    ['belongs to another program', pragma('user_version = 0; DROP TABLE posts'), /^fail .* another program$/],
    [
      'was made from the output of .dump, which lacks the version',
      pragma('user_version = 0'),
      /^fail .* its user_version is 0, as after \.dump: set it to that of the original file$/,
    ],
    ['has a negative version', pragma('user_version = -1'), /^fail .* another program$/],
    ['lacks a table', (path) => run(path, 'DROP TABLE idempotency_keys'), /^fail .* another program$/],
    ['is empty', (path) => writeFileSync(path, ''), /^warn .* has no tables$/],
    ['has an older schema', pragma('user_version = 3'), /^warn the schema has version 3$/],
    ['may be opened by others', mode(0o644), /^warn .* is open to every user of this machine/],
    ['may only be written by others', mode(0o602), /^warn .* is open to every user of this machine/],
    ['its group may read', mode(0o640)],
  ];
  for (const [what, damage, problem] of damages) {
    it(`reports a file that ${what}`, () => {
      const path = makeFile();
      damage(path);
      const [first = '', ...others] = problemsOf(path);
      assert.match(first, problem ?? /^$/);
      assert.deepEqual(others, []);
    });
  }

  for (const [version, level] of [
    ['3.49.2', 'warn'],
    ['3.50.6', 'warn'],
    ['3.50.7', 'ok'],
    ['3.51.2', 'warn'],
    ['3.51.3', 'ok'],
    ['3.53.0', 'ok'],
  ] as const) {
    it(`reports SQLite ${version} as ${level} for several processes, and as ok for one`, () => {
      assert.equal(examineVersion(2, version).level, level);
      assert.equal(examineVersion(1, version).level, 'ok');
    });
  }

  it('reports a write-ahead log of more than 64 MiB', async (t) => {
    const copy = await copyInUse(t);
    truncateSync(`${copy}-wal`, 64 * 2 ** 20);
    assert.deepEqual(problemsOf(copy), []);
    truncateSync(`${copy}-wal`, 64 * 2 ** 20 + 1);
    const problem = `warn /${basename(copy)}-wal has the latest writes (64 MiB) and keeps growing during a long read`;
    assert.deepEqual(problemsOf(copy), [problem]);
  });

  it('reports a FIFO instead of waiting for its writer', {
    skip: process.platform === 'win32' && 'Windows has no FIFOs in folders',
  }, async (t) => {
    const path = join(publicFolder(t), 'users.db');
    await promisify(execFile)('mkfifo', ['-m', '666', path]);
    assert.match(await examineAsNobody(path), /^fail .* is not a regular file: choose another path$/);
  });

  const disks: readonly [what: string, disk: { free: number; type?: number }, problem?: RegExp][] = [
    ['a full disk', { free: 1_000_000 }, /^fail the disk of .* has 1 MiB free$/],
    ['a disk with less than 100 MiB', { free: 100 * 2 ** 20 - 1 }, /^fail the disk of /],
    ['a disk that is nearly full', { free: 500_000_000 }, /^warn the disk of .* has 477 MiB free$/],
    ['a disk with less than 1 GiB', { free: 2 ** 30 - 1 }, /^warn the disk of /],
    ['no disk with 1 GiB', { free: 2 ** 30 }],
    ['a network file system', { free: 1e12, type: 0x6969 }, /^warn the file system of .* is on a network/],
  ];
  for (const [what, { free, type = 0xef53 }, problem] of disks) {
    it(`reports ${what}`, (t) => {
      const path = makeFile();
      mockBuiltin(t, fs, 'statfsSync', () => ({ bavail: free, bsize: 1, type }));
      const [first = '', ...others] = problemsOf(path);
      assert.match(first, problem ?? /^$/);
      assert.deepEqual(others, []);
    });
  }

  it('reports a disk with less room than a copy of the file needs', (t) => {
    const path = makeFile();
    truncateSync(path, 2 ** 30 + 1);
    mockBuiltin(t, fs, 'statfsSync', () => ({ bavail: 2 ** 30, bsize: 1, type: 0xef53 }));
    assert.deepEqual(problemsOf(path), ['warn the disk of /users ?#%.db (1024 MiB) has 1024 MiB free']);
  });

  it('reports a disk that is mounted read-only, and not the rights of the user', (t) => {
    const path = makeFile();
    failCalls(t, 'EROFS', 'read-only file system');
    assert.deepEqual(problemsOf(path), ['fail the disk of /users ?#%.db is mounted read-only']);
  });

  it('reports the error of a disk that fails, not a missing right of the user', async (t) => {
    const path = await copyInUse(t);
    failCalls(t, 'EIO', 'i/o error');
    assert.deepEqual(problemsOf(path), ['fail EIO: i/o error']);
  });

  it('reports a path that is too long as such, not as a missing right', () => {
    const [finding] = examineSqlite(join(temporaryFolder(), 'x'.repeat(252)));
    assert.match(`${finding?.what}`, /^ENAMETOOLONG: /);
  });

  describe('the examination of a SQLite file by a user without write access', {
    skip: process.platform === 'win32' && 'Windows has no users',
  }, () => {
    it('reports a file that is read-only', async (t) => {
      const path = makeFile(publicFolder(t));
      chmodSync(path, 0o444);
      assert.match(await examineAsNobody(path), /^fail the user \S+ cannot write to \S.*users \?#%\.db$/);
    });

    it('does not take a file with the same name above a missing folder for the database', async (t) => {
      const folder = publicFolder(t);
      writeFileSync(join(folder, 'users.db'), '', { mode: 0o444 });
      assert.equal(await examineAsNobody(join(folder, 'missing', 'users.db')), '');
    });

    it('reports a folder that is read-only', async (t) => {
      const folder = join(publicFolder(t), 'inner');
      mkdirSync(folder, { mode: 0o555 });
      for (const path of [join(folder, 'users.db'), join(folder, 'a', 'users.db')]) {
        assert.match(await examineAsNobody(path), /^fail the user \S+ cannot write to \S+inner$/);
      }
    });
  });
});

/** Makes each check of a right fail with an error of the system. */
function failCalls(t: TestContext, code: string, text: string): void {
  mockBuiltin(t, fs, 'accessSync', () => {
    throw Object.assign(new Error(`${code}: ${text}`), { code });
  });
}

/** A folder in which every user may write. */
function publicFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'users-service-'));
  t.after(() => rmSync(folder, { recursive: true }));
  chmodSync(folder, 0o777);
  return folder;
}

function run(path: string, sql: string): void {
  using db = new DatabaseSync(path);
  db.exec(sql);
}

function overwritePages(path: string): void {
  const file = fs.openSync(path, 'r+');
  for (let page = 12; page < 16; page += 1)
    fs.writeSync(file, Buffer.alloc(4_096, 0x5a), 0, 4_096, page * 4_096);
  fs.closeSync(file);
}

function losePage(path: string): void {
  const file = fs.openSync(path, 'r+');
  fs.writeSync(file, Buffer.alloc(4_096), 0, 4_096, 9 * 4_096);
  fs.closeSync(file);
}

// A lost write can leave an index that differs from its table.
function deleteFromIndex(path: string): void {
  using db = new DatabaseSync(path, { defensive: false });
  db.exec(`
    PRAGMA writable_schema = ON;
    CREATE TEMP TABLE old AS SELECT * FROM sqlite_schema WHERE name = 'users_by_name';
    DELETE FROM sqlite_schema WHERE name = 'users_by_name';
    PRAGMA writable_schema = RESET;
    DELETE FROM users WHERE id = 7;
    PRAGMA writable_schema = ON;
    INSERT INTO sqlite_schema SELECT * FROM temp.old;
    PRAGMA writable_schema = RESET`);
}

/** The first problem that a process without root's privileges finds. */
async function examineAsNobody(path: string): Promise<string> {
  // Load all modules first, because the user may have no access to their files.
  const examine = new URL('../../../src/storage/sqlite/examine.ts', import.meta.url).href;
  const user = process.getuid?.() === 0 ? (await findNobody()).uid : undefined;
  const source = `
    import { examineSqlite } from ${JSON.stringify(examine)};
    if (${user} !== undefined) process.setuid(${user});
    console.log(JSON.stringify(examineSqlite(${JSON.stringify(path)})));`;
  const args = ['--input-type=module', '--eval', source];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000 });
  return problems(JSON.parse(stdout)).join('\n');
}
