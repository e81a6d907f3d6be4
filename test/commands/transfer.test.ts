import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, open, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { byKind } from '../../src/domain/record.ts';
import type { Store } from '../../src/domain/repository.ts';
import { openStore, type StoreOptions, storeSchemes } from '../../src/storage/open.ts';
import { openTestPostgres, type TestPostgres } from '../kit/postgres.ts';
import { openSession } from '../kit/postgres-session.ts';
import { environment, runMain, startProcess, withoutCoverage, withoutGrpc } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { closeAfter } from '../support/close-after.ts';
import { runCommand } from '../support/command.ts';
import { failNextSync } from '../support/failing-sync.ts';
import { fetch } from '../support/fetch.ts';
import { noOpenFiles, openFilesIn } from '../support/open-files.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { hasTool, runTool } from '../support/tool.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const checkout = fileURLToPath(new URL('../..', import.meta.url));

/** The URLs of two stores in a new folder. */
function twoStores() {
  const folder = temporaryFolder();
  return { folder, a: `sqlite:${join(folder, 'a.db')}`, b: `sqlite:${join(folder, 'b.db')}` };
}

/** The URL of a store that does not exist yet. */
const newStore = () => `sqlite:${join(temporaryFolder(), 'new.db')}`;

type Fill = (store: Store) => Promise<unknown>;

const filled = new Map<Fill, Promise<string>>();

/** Creates a store with rows. Copying a file is faster than writing the rows again. */
async function fillStore(url: string, fill: Fill = addUnusual): Promise<void> {
  const path = filled.get(fill) ?? createFile(fill);
  filled.set(fill, path);
  await copyFile(await path, url.slice('sqlite:'.length));
}

/** A folder with a store that has rows. */
async function filledStore(fill?: Fill) {
  const stores = twoStores();
  await fillStore(stores.a, fill);
  return stores;
}

async function createFile(fill: Fill): Promise<string> {
  const path = join(temporaryFolder(), 'filled.db');
  const store = await openStore(`sqlite:${path}`);
  await fill(store);
  await store.close();
  return path;
}

/** Adds changed, deleted and unusual rows. */
async function addUnusual(store: Store): Promise<void> {
  for (const name of ['Ada', 'مريم', '李雷', 'é composed, e\u0301 not', '👩‍🚀 and \u2028 \u2029']) {
    const { value } = await store.users.create({ name, role: 'reader' });
    await store.posts(value.id).create({ title: `of ${name}`, body: 'two\nlines\tand a tab' });
  }
  await store.users.update(1, { role: null });
  await store.users.update(1, { name: 'Ada Lovelace' });
  await store.posts(1).update(1, { title: 'Notes' });
  const { value } = await store.users.create({ name: 'gone' });
  await store.users.delete(value.id);
}

// They need three batches. Short records would need 20 times as many.
const manyPosts = 801;

async function addManyPosts(store: Store): Promise<void> {
  await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
  const post = { userId: 1, title: 'title', body: 'b'.repeat(10_000), version: 1 };
  const posts = Array.from({ length: manyPosts }, (_, i) => ({ id: i + 1, ...post }));
  await store.importRows('posts', posts);
}

let postgres: Promise<TestPostgres> | undefined;
after(async () => (await postgres)?.close());

/** An empty database of the PostgreSQL that all tests share. */
async function createDatabase(): Promise<string> {
  postgres ??= openTestPostgres();
  return (await postgres).createDatabase();
}

/** Runs a command that fills a store, and kills it after its first batch. Resolves to the last assigned id of posts. */
async function killAfterFirstBatch(url: string, args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, [main, ...args], { stdio: 'ignore' });
  const exited = once(child, 'exit');
  const store = await openStore(url);
  try {
    await until(async () => (await store.summary()).posts.count > 0, 'the first batch', 30_000, 0);
    child.kill('SIGKILL');
    await exited;
    return (await store.summary()).posts.lastId;
  } finally {
    await store.close();
  }
}

const lines = (text: string): Record<string, unknown>[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

it('export, import and copy close all of their files', { skip: noOpenFiles }, async () => {
  const { folder, a, b } = await filledStore();
  const file = join(folder, 'all.ndjson');
  const copied = `sqlite:${join(folder, 'copied.db')}`;
  for (const args of [
    ['export', file, '--database', a],
    ['import', file, '--database', b],
    ['copy', '--from', a, '--to', copied],
  ]) {
    const { code, stderr } = await runCommand(args);
    assert.equal(code, 0, stderr);
    assert.deepEqual(openFilesIn(folder), [], args.join(' '));
  }
});

describe('export and import', () => {
  it('reports that an export is complete after its end record is written', async () => {
    const { a: url } = await filledStore();
    const { code, output } = await runCommand(['export', '--database', url]);
    assert.equal(code, 0);
    assert.match(output.at(-2) ?? '', /"type":"end"/);
    assert.match(output.at(-1) ?? '', /^export 100 %/);
  });

  it('keep ids, roles, versions, posts and the last used ids', async (t) => {
    const { a, b } = await filledStore();
    const exported = await runCommand(['export', '--database', a]);
    assert.equal(exported.code, 0, exported.stderr);
    const records = lines(exported.stdout);
    assert.deepEqual(records[0], { type: 'user', id: 1, name: 'Ada Lovelace', version: 3 });
    const notes = { id: 1, userId: 1, title: 'Notes', body: 'two\nlines\tand a tab', version: 2 };
    assert.deepEqual(records[5], { type: 'post', ...notes });
    assert.equal(records.at(-1)?.['records'], 10);

    const imported = await runCommand(['import', '--database', b], { input: exported.stdout });
    assert.equal(imported.code, 0, imported.stderr);
    const [result, digest = ''] = imported.stdout.split(', sha256 ');
    assert.equal(result, `imported 10 new of 10 records into ${b}`);
    assert.match(digest, /^[0-9a-f]{64}\n$/);
    const again = await runCommand(['export', '--database', b]);
    assert.equal(again.stdout, exported.stdout);

    const store = closeAfter(t, await openStore(b));
    const { value } = await store.users.create({ name: 'next' });
    assert.equal(value.id, 7, 'the id of the deleted user must not be reused');
  });

  it('removes the file of an export that cannot be synced to disk', async (t) => {
    const { folder, a: url } = await filledStore();
    failNextSync(t);
    const { code, stderr } = await runCommand(['export', join(folder, 'all.ndjson'), '--database', url]);
    assert.equal(code, 1);
    assert.match(stderr, /the disk is broken$/m);
    assert.deepEqual(await readdir(folder), ['a.db']);
  });

  it('reports an export as complete, but not safe, when a broken disk cannot sync its folder', async (t) => {
    const { folder, a: url } = await filledStore();
    failNextSync(t, Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' }), folder);
    const args = ['export', join(folder, 'all.ndjson'), '--database', url];
    const { code, stdout, stderr } = await runCommand(args);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /: \/.* has the new entry, but a loss of power may remove it: EIO: .* fsync$/m);
    assert.deepEqual(await readdir(folder), ['a.db', 'all.ndjson']);
  });

  it('accept a file of an earlier release without versions of posts', async (t) => {
    const url = `sqlite:${join(temporaryFolder(), 'a.db')}`;
    const input = `\
{"type":"user","id":1,"name":"Ada","role":"admin","version":1}
{"type":"post","id":1,"userId":1,"title":"Notes","body":"a\\nb"}
{"type":"end","records":2,"sha256":"202b863ed9d9f0dfd7b73ecf44bcf6b3b41b1a984ac54bd5ed472d5fb8e95e11","lastUserId":1,"lastPostId":1}
`;
    const imported = await runCommand(['import', '--database', url], { input });
    assert.equal(imported.code, 0, imported.stderr);
    const store = closeAfter(t, await openStore(url));
    assert.equal((await store.posts(1).get(1))?.version, 1);
  });

  it('accept a file of a release that did not have posts', async (t) => {
    const url = `sqlite:${join(temporaryFolder(), 'a.db')}`;
    const fields = { records: 0, sha256: hash('sha256', ''), lastUserId: 4 };
    const endSha256 = hash('sha256', JSON.stringify(fields));
    const input = JSON.stringify({ type: 'end', ...fields, endSha256 });
    const imported = await runCommand(['import', '--database', url], { input });
    assert.equal(imported.code, 0, imported.stderr);
    const store = closeAfter(t, await openStore(url));
    const { users, posts } = await store.summary();
    assert.deepEqual([users.lastId, posts.lastId], [4, 0]);
  });

  it('add no records when the same file is imported twice', async () => {
    const { folder, a } = await filledStore();
    const file = join(folder, 'all.ndjson');
    const env = { DATABASE_URL: a };
    const exported = await runCommand(['export', file], { env });
    assert.match(exported.stdout, /^exported 10 records to .*all\.ndjson, sha256 [0-9a-f]{64}\n$/);
    // An export contains the data of users.
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const imported = await runCommand(['import', file], { env });
    assert.match(imported.stdout, /^imported 0 new of 10 records/);
  });

  it('do not overwrite an existing file', async () => {
    const { folder, a } = await filledStore();
    const file = join(folder, 'precious');
    await writeFile(file, 'precious');
    const exported = await runCommand(['export', file, '--database', a]);
    assert.equal(exported.code, 1);
    assert.equal(exported.stderr, `users-service: ${file}: file already exists\n`);
    assert.equal(await readFile(file, 'utf8'), 'precious');
  });

  it('leave no file when the export cannot write to it', async (t) => {
    const { folder, a: url } = await filledStore();
    await using handle = await open(join(folder, 'a.db'));
    const full = { errno: -28, syscall: 'write' };
    const error = Object.assign(new Error('ENOSPC: no space left on device, write'), full);
    t.mock.method(Object.getPrototypeOf(handle), 'writeFile', () => Promise.reject(error));
    const file = join(folder, 'all.ndjson');
    const { code, stderr } = await runCommand(['export', file, '--database', url]);
    assert.deepEqual([code, stderr], [1, `users-service: ${file}: no space left on device\n`]);
    assert.deepEqual(await readdir(folder), ['a.db']);
  });

  it('and copy and backup fail if their last line cannot be written, for example to a full disk', async () => {
    const { folder, a, b } = await filledStore();
    const file = join(folder, 'all.ndjson');
    const writeError = new Error('ENOSPC: no space left on device, write');
    for (const args of [
      ['export', file, '--database', a],
      ['import', file, '--database', b],
      ['copy', '--from', a, '--to', b],
      ['backup', join(folder, 'copy.db'), '--database', a],
    ]) {
      const { code, stderr } = await runCommand(args, { writeError });
      assert.equal(code, 1, args.join(' '));
      assert.match(stderr, /^users-service: ENOSPC: no space left on device, write$/m);
    }
  });

  it('work while the store is written', async (t) => {
    const { folder, a, b } = twoStores();
    const store = closeAfter(t, await openStore(a));
    await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
    // Several batches, so that users are created between the last read of users and that of posts.
    const post = { userId: 1, title: 't', body: '', version: 1 };
    const posts = Array.from({ length: 10_000 }, (_, i) => ({ id: i + 1, ...post }));
    await store.importRows('posts', posts);
    let isExported = false;
    let created = 0;
    const writing = (async () => {
      while (!isExported) {
        const { value } = await store.users.create({ name: 'new' });
        await store.posts(value.id).create({ title: 'of a new user', body: '' });
        created += 1;
      }
    })();
    const file = join(folder, 'all.ndjson');
    const exported = await runCommand(['export', file, '--database', a]);
    isExported = true;
    await writing;
    assert.equal(exported.code, 0, exported.stderr);
    assert.ok(created > 1, `${created} users were created`);
    const imported = await runCommand(['import', file, '--database', b]);
    assert.equal(imported.code, 0, imported.stderr);
  });

  it('import all records while the other store is written, which assigns no id of theirs', async (t) => {
    const { folder, a, b } = await filledStore(addManyPosts);
    const file = join(folder, 'all.ndjson');
    await runCommand(['export', file, '--database', a]);
    const store = closeAfter(t, await openStore(b));
    const importing = runCommand(['import', file, '--database', b]);
    await until(async () => (await store.summary()).posts.count > 0, 'the first batch', 30_000, 0);
    const created = await store.posts(1).create({ title: 'new', body: '' });
    const imported = await importing;
    assert.deepEqual([imported.code, created?.value.id], [0, manyPosts + 1], imported.stderr);
  });

  it('need a small heap only, although the longest posts follow short ones', async () => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'a.db')}`;
    const store = await openStore(database);
    await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
    const longest = '\u{1F600}'.repeat(10_000);
    const bodies = Array.from({ length: 1_000 }, (_, i) => (i < 200 ? '' : longest));
    const posts = bodies.map((body, i) => ({ id: i + 1, userId: 1, title: 'title', body, version: 1 }));
    await store.importRows('posts', posts);
    await store.close();
    const { code, stderr } = await runMain(['export', join(folder, 'a.ndjson'), '--database', database], {
      env: { NODE_OPTIONS: '--max-old-space-size=80' },
    });
    assert.equal(code, 0, stderr);
  });

  it('leave no id of the file to assign when an import was killed', async () => {
    const { folder, a, b } = await filledStore(addManyPosts);
    const file = join(folder, 'all.ndjson');
    await runCommand(['export', file, '--database', a]);
    assert.equal(await killAfterFirstBatch(b, ['import', file, '--database', b]), manyPosts);
    const imported = await runCommand(['import', file, '--database', b]);
    assert.equal(imported.code, 0, imported.stderr);
  });

  it('include records above the last id that a sequence has assigned, and continue after them', async (t) => {
    const { folder, a } = await filledStore();
    const [b, c] = ['b', 'c'].map((name) => `sqlite:${join(folder, name)}.db`) as [string, string];
    const db = new DatabaseSync(join(folder, 'a.db'));
    db.exec(
      "UPDATE sqlite_sequence SET seq = 3 WHERE name = 'posts'; DELETE FROM sqlite_sequence WHERE name = 'users'",
    );
    db.close();
    const postgresUrl = await createDatabase();
    await (await openStore(postgresUrl)).close();
    const session = await openSession(t, postgresUrl);
    await session.query(`INSERT INTO users (id, name) VALUES (5, 'Ada');
      INSERT INTO posts (id, user_id, title, body) VALUES (5, 5, 'title', '')`);
    for (const [source, target, records] of [
      [a, b, 10],
      [postgresUrl, c, 2],
    ] as const) {
      const exported = await runCommand(['export', '--database', source]);
      assert.equal(lines(exported.stdout).at(-1)?.['records'], records, exported.stderr);
      const imported = await runCommand(['import', '--database', target], { input: exported.stdout });
      assert.equal(imported.code, 0, imported.stderr);
      const store = await openStore(target);
      t.after(() => store.close());
      assert.equal((await store.posts(5).create({ title: 'next', body: '' }))?.value.id, 6);
      assert.equal((await store.users.create({ name: 'next' })).value.id, 6);
    }
  });

  it('reject a record that breaks the rules at the import, while a copy accepts it', async () => {
    const { folder, a: url } = await filledStore();
    const db = new DatabaseSync(join(folder, 'a.db'));
    db.exec("UPDATE users SET role = 'Admin' WHERE id = 3");
    db.close();
    const { stdout: input } = await runCommand(['export', '--database', url]);
    const imported = await runCommand(['import', '--database', newStore()], { input });
    assert.equal(imported.code, 1);
    assert.match(imported.stderr, /^users-service: line 3: role .*\n$/);
    const copied = await runCommand(['copy', '--from', url, '--to', newStore()]);
    assert.equal(copied.code, 0, copied.stderr);
  });

  it('print that a store is migrated, which may take minutes', async () => {
    const folder = temporaryFolder();
    const sql = await readFile(new URL('../storage/sqlite/version-1.sql', import.meta.url), 'utf8');
    const [a, b, c, empty] = ['a', 'b', 'c', 'empty'].map((name) => {
      const path = join(folder, `${name}.db`);
      const db = new DatabaseSync(path);
      db.exec(sql);
      if (name === 'empty') db.exec('DELETE FROM posts; DELETE FROM users');
      db.close();
      return `sqlite:${path}`;
    }) as [string, string, string, string];
    const exported = await runCommand(['export', '--database', a]);
    const imported = await runCommand(['import', '--database', b], { input: exported.stdout });
    const copied = await runCommand(['copy', '--from', c, '--to', newStore()]);
    const filled = await runCommand(['copy', '--from', c, '--to', empty]);
    for (const { code, stderr } of [exported, imported, copied, filled]) {
      assert.equal(code, 0, stderr);
      assert.match(stderr, /^users-service: the schema is migrated from version 1 to \d+, .* minutes\n/m);
    }
  });

  it('show no progress of an export on the terminal on which it writes the records', async () => {
    const url = newStore();
    await fillStore(url);
    const { output } = await runCommand(['export', '--database', url], { isTerminal: true });
    assert.match(output.at(-1) ?? '', /^\{"type":"end".*\}\n$/);
    assert.ok(output.every((text) => text.startsWith('{')));
    const file = join(temporaryFolder(), 'all.ndjson');
    const { stderr } = await runCommand(['export', file, '--database', url], { isTerminal: true });
    assert.match(stderr, /^\rexport \[/);
  });

  it('show their progress, for an import once for each time it reads the file', async () => {
    const { a, b } = await filledStore();
    const exported = await runCommand(['export', '--database', a]);
    assert.match(exported.stderr, /^export 100 % \(10 of 10, .*\n$/);
    const imported = await runCommand(['import', '--database', b], { input: exported.stdout });
    assert.match(imported.stderr, /^check 10 \(.*\nimport 100 % \(10 of 10, .*\n$/);
  });

  it('also transfer a store without records, whose next ids continue', async (t) => {
    const [source, target] = [newStore(), newStore()];
    const emptied = await openStore(source);
    await emptied.users.create({ name: 'Ada' });
    await emptied.users.delete(1);
    await emptied.close();
    const { stdout: input } = await runCommand(['export', '--database', source]);
    const { code, stderr } = await runCommand(['import', '--database', target], { input });
    assert.equal(code, 0, stderr);
    const store = closeAfter(t, await openStore(target));
    assert.equal((await store.users.create({ name: 'Grace' })).value.id, 2);
  });

  it('name the store of an import, without its password', async () => {
    const url = await createDatabase();
    const input = '{"type":"user","id":1,"name":"Ada"}';
    const { stdout } = await runCommand(['import', '--partial', '--database', url], { input });
    const { password } = new URL(url);
    assert.notEqual(password, '');
    const shown = url.replace(`:${password}@`, ':(hidden)@');
    assert.ok(stdout.startsWith(`imported 1 new of 1 record into ${shown}, sha256 `), stdout);
  });

  it('work with npm as described in the README', async (t) => {
    if (!hasTool('npm')) return t.skip('npm is not installed');
    const readme = await readFile(join(checkout, 'README.md'), 'utf8');
    const [, prefix] = /In a checkout,\s+`users-service` is `([^`]+)`/.exec(readme) ?? [];
    assert.ok(prefix);
    const { folder, a, b } = await filledStore();
    const file = join(folder, 'all.ndjson');
    const sh = `${prefix} export --database ${a} > ${file} && ${prefix} import --database ${b} < ${file}`;
    const { code, stdout, stderr } = await runTool('sh', ['-c', sh], { cwd: checkout });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^imported 10 new of 10 records into sqlite:\S+, sha256 [0-9a-f]{64}\n$/);
  });

  it('read a path that is a pipe, which can be read only once', async () => {
    const database = `sqlite:${join(temporaryFolder(), 'a.db')}`;
    const command = `"$1" "$2" import /dev/stdin --partial --database "$3"`;
    const sh = ['-c', `echo '${user}' | ${command}`, 'sh', process.execPath, main, database];
    const { code, stdout, stderr } = await runTool('sh', sh);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^imported 1 new of 1 record into \S+, /);
  });

  it('remove their temporary copy of the input after the import', async () => {
    const folder = temporaryFolder();
    const { code } = await runMain(['import', '--database', newStore(), '--partial'], {
      env: { TMPDIR: folder },
      input: user,
    });
    assert.equal(code, 0);
    assert.deepEqual(await readdir(folder), []);
  });

  it('print why a temporary copy of the input cannot be created', async () => {
    const folder = join(temporaryFolder(), 'missing');
    const { code, stderr } = await runMain(['import', '--database', newStore(), '--partial'], {
      env: { TMPDIR: folder },
      input: user,
    });
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: \S+missing\/users-import-\S+: no such file or directory\n$/);
  });

  it('do not blame the temporary copy for an input that cannot be read', async () => {
    const folder = temporaryFolder();
    const { code, stderr } = await runCommand(['import', folder, '--database', newStore()]);
    assert.equal(code, 1);
    assert.equal(stderr, `users-service: ${folder}: illegal operation on a directory\n`);
  });

  it('print which temporary copy of the input cannot be written, for example on a full disk', async () => {
    const args = [process.execPath, main, 'import', '--database', newStore()];
    const script = 'ulimit -f 0; echo | "$0" "$@"';
    const { code, stderr } = await runTool('sh', ['-c', script, ...args], { env: withoutCoverage() });
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: \S+\/users-import-\S+\/records\.ndjson: file too large\n$/);
  });
});

describe('a command whose standard error was closed by its reader', () => {
  for (const [name, created] of [
    ['export', 'new'],
    ['import', 'new.db'],
    ['backup', 'new'],
  ] as const) {
    it(`${name} succeeds and leaves no temporary file`, async () => {
      const { folder, a: filledUrl } = await filledStore();
      const isImport = name === 'import';
      const input = isImport ? (await runCommand(['export', '--database', filledUrl])).stdout : '';
      const file = join(folder, created);
      const args = isImport ? ['--database', `sqlite:${file}`] : [file, '--database', filledUrl];
      const child = spawn(process.execPath, [main, name, ...args], {
        env: { ...environment(), TMPDIR: folder },
        stdio: ['pipe', 'ignore', 'pipe'],
      });
      child.stderr.destroy();
      child.stdin.end(input);
      const [code] = await once(child, 'exit');
      assert.equal(code, 0);
      assert.deepEqual(await readdir(folder), ['a.db', created]);
    });
  }
});

const user = '{"type":"user","id":1,"name":"Ada"}';
const noEnd = /^users-service: the file has no end record after 3 records: it is truncated .* --partial /m;

describe('import rejects an incomplete or damaged file before it imports any record', () => {
  const spoilt: [what: string, spoil: (lines: string[]) => string[], message: RegExp][] = [
    ['cut', (all) => all.slice(0, 3), noEnd],
    ['without a record', (all) => all.toSpliced(2, 1), /the file is damaged: the checksum of its 9 records/],
    ['with another name', (all) => all.with(0, all[0]?.replace('Ada', 'Eve') ?? ''), /the file is damaged/],
    [
      'with another last id',
      (all) => all.with(-1, all.at(-1)?.replace(':6,', ':0,') ?? ''),
      /line 11: the end record is damaged/,
    ],
    ['with a broken line at the end', (all) => [...all.slice(0, -1), '{"type":'], /line 11 is not JSON: "\{/],
    ['with a line after its end', (all) => [...all, user], /line 12 follows the end record/],
    ['empty', () => [], /the file is empty/],
    ['blank', () => ['', ''], /the file is empty/],
  ];
  for (const [what, spoil, message] of spoilt) {
    it(`${what}, and then imports the correct file`, async () => {
      const { folder, a, b } = await filledStore();
      const file = join(folder, 'all.ndjson');
      assert.equal((await runCommand(['export', file, '--database', a])).code, 0);
      const whole = await readFile(file, 'utf8');
      const input = spoil(whole.trimEnd().split('\n')).join('\n');
      const refused = await runCommand(['import', '--database', b], { input });
      assert.deepEqual([refused.code, refused.stdout], [1, '']);
      assert.match(refused.stderr, message);
      assert.deepEqual(await readdir(folder), ['a.db', 'all.ndjson'], 'the store must not be created');
      const imported = await runCommand(['import', file, '--database', b]);
      assert.match(imported.stdout, /^imported 10 new of 10 records/);
    });
  }

  it('except that --partial imports a file without an end record, perhaps with a byte order mark', async () => {
    const { code, stdout } = await runCommand(['import', '--partial', '--database', newStore()], {
      input: `\uFEFF${user}`,
    });
    assert.equal(code, 0);
    assert.match(stdout, /^imported 1 new of 1 record into \S+, /);
  });

  it('also with --partial if it is empty or damaged', async () => {
    const database = newStore();
    const end = '{"type":"end","records":1,"sha256":"00","lastUserId":1,"lastPostId":0}';
    const noDigest = end.replace('"sha256":"00",', '');
    for (const input of ['', `${user}\n${end}`, `${user}\n${noDigest}`]) {
      const { code } = await runCommand(['import', '--partial', '--database', database], { input });
      assert.equal(code, 1, input);
    }
  });

  const wrong: readonly (readonly [what: string, input: string, message: RegExp])[] = [
    ['a line that is not JSON', 'nonsense', /line 1 is not JSON: "nonsense"\n$/],
    [
      'output of npm before the first record',
      `\n> users-service@1.0.0 start\n> node src/main.ts export\n\n${user}`,
      /line 2 is not JSON: "> users-service@1.0.0 start"; npm wrote it: .*--silent/,
    ],
    ['an array', '[]', /line 1: the record must be a JSON object/],
    ['an unknown field', '{"type":"user","id":1,"nam":"Ada"}', /line 1: "nam" is not a known field/],
    [
      'a field of another type of record',
      '{"type":"user","id":1,"name":"Ada","title":"x"}',
      /line 1: "title" is not a known/,
    ],
    ['a record without a type', '{"id":1}', /line 1: type must be/],
    ['a blank name', '{"type":"user","id":1,"name":" "}', /line 1: name must not be blank/],
    ['a record without an id', '{"type":"user","name":"Ada"}', /line 1: id must be/],
    ['an id beyond int32', '{"type":"user","id":2147483648,"name":"Ada"}', /line 1: id must be/],
    ['version 0', '{"type":"user","id":1,"name":"Ada","version":0}', /line 1: version must be/],
    ['a post without its user', '{"type":"post","id":1,"userId":9,"title":"t"}', /post 1 has no user/],
    [
      'an end with a wrong last id',
      '{"type":"end","records":0,"sha256":"","lastPostId":-1}',
      /lastPostId must/,
    ],
    [
      'an end with an unknown field',
      '{"type":"end","records":0,"sha256":"","lastPostIc":1}',
      /line 1: "lastPostIc" is not a known field/,
    ],
    ['a repeated id', `${user}\n{"type":"user","id":1,"name":"Eve"}`, /user 1/],
  ];
  for (const [what, input, message] of wrong) {
    it(`rejects ${what} with its line`, async () => {
      const args = ['import', '--partial', '--database', newStore()];
      const { code, stderr, stdout } = await runCommand(args, { input });
      assert.equal(code, 1, stdout);
      assert.match(stderr, message);
      assert.doesNotMatch(stderr, /^\s+at /m, 'no stack trace');
    });
  }

  it('assigns no id of a partial file to a new record, also after a conflict', async (t) => {
    const database = newStore();
    const store = closeAfter(t, await openStore(database));
    await store.users.create({ name: 'Bob' });
    const input = `${user}\n{"type":"user","id":50,"name":"Eve"}\n`;
    const { code, stderr } = await runCommand(['import', '--partial', '--database', database], { input });
    assert.equal(code, 1);
    assert.match(stderr, /^users-service: user 1 is there already and differs$/m);
    assert.equal((await store.users.create({ name: 'Cid' })).value.id, 51);
  });

  it('rejects text that is not UTF-8 with its line', async () => {
    const file = join(temporaryFolder(), 'latin1.ndjson');
    await writeFile(file, `${user}\n${user.replace('Ada', 'Zoë')}`, 'latin1');
    const { code, stderr } = await runCommand(['import', file, '--partial', '--database', newStore()]);
    assert.deepEqual([code, stderr], [1, 'users-service: line 2 is not valid UTF-8\n']);
  });

  it('rejects a line that is longer than any record, without reading all of it', async () => {
    const file = join(temporaryFolder(), 'long.ndjson');
    await writeFile(file, `${user}\n`);
    await truncate(file, 64 * 1024 * 1024);
    const { code, stderr } = await runCommand(['import', file, '--partial', '--database', newStore()]);
    assert.deepEqual([code, stderr], [1, 'users-service: line 2 is longer than 262144 bytes\n']);
  });

  it('rejects a line of 262,145 bytes, but accepts one of 262,144', async () => {
    const args = ['import', '--partial', '--database', newStore()];
    const rejected = await runCommand(args, { input: `${user.padEnd(262_145)}\n` });
    assert.equal(rejected.code, 1);
    assert.match(rejected.stderr, /^users-service: line 1 is longer than 262144 bytes$/m);
    const { stdout, stderr } = await runCommand(args, { input: `${user.padEnd(262_144)}\n` });
    assert.match(stdout, /^imported 1 new of 1 record into \S+, /, stderr);
  });

  it('but accepts the longest record, with each character escaped, and lines that end with CR LF', async () => {
    const escaped = (count: number) => '\\ud83d\\ude00'.repeat(count);
    const post = `{"type":"post","id":1,"userId":1,"title":"${escaped(200)}","body":"${escaped(10_000)}"}`;
    const args = ['import', '--partial', '--database', newStore()];
    const { stdout, stderr } = await runCommand(args, { input: `${user}\r\n${post}\r\n` });
    assert.match(stdout, /^imported 2 new of 2 records into \S+, /, stderr);
  });

  it('rejects a missing file', async () => {
    const { code, stderr } = await runCommand(['import', '/nowhere.ndjson', '--database', newStore()]);
    assert.equal(code, 1);
    assert.equal(stderr, 'users-service: /nowhere.ndjson: no such file or directory\n');
  });

  it('rejects a store that does not outlive the command', async () => {
    const { code, stderr } = await runCommand(['import', '--partial', '--database', 'memory:'], {
      input: user,
    });
    assert.equal(code, 2);
    assert.equal(stderr, 'users-service: memory: loses its records when its process ends\n');
  });
});

describe('copy', () => {
  it('prints the number of copied records, and its progress in lines', async () => {
    const { a, b } = await filledStore();
    const copied = await runCommand(['copy', '--from', a, '--to', b]);
    assert.equal(copied.code, 0, copied.stderr);
    assert.match(copied.stdout, /^copied 10 records, sha256 [0-9a-f]{64}\n$/);
    const progress = /^compare 100 % \(0 of 0, .*\ncopy 100 % \(10 of 10, .*\nverify 100 % \(10 of 10, /;
    assert.match(copied.stderr, progress);
    const again = await runCommand(['copy', '--from', a, '--to', b]);
    assert.equal(again.stdout, copied.stdout, 'a second copy must print the same');
    assert.match(again.stderr, /^compare 100 % \(10 of 10, /);
  });

  it('copies from PostgreSQL to SQLite, and uses the singular for one record', async () => {
    const [from, to] = [await createDatabase(), newStore()];
    const source = await openStore(from);
    await source.users.create({ name: 'Ada' });
    await source.close();
    const { stdout, stderr } = await runCommand(['copy', '--from', from, '--to', to]);
    assert.match(stdout, /^copied 1 record, /, stderr);
  });

  it('does not copy the feed of changes: the feed of the target restarts', async (t) => {
    const { a, b } = await filledStore();
    assert.equal((await runCommand(['copy', '--from', a, '--to', b])).code, 0);
    const [source, target] = [await openStore(a), await openStore(b)];
    t.after(() => Promise.all([source.close(), target.close()]));
    assert.equal((await source.changes?.read({ after: 0, limit: 100 }))?.changes.length, 15);
    const position = await target.changes?.position();
    assert(target.changes && position);
    await assert.rejects(target.changes.read({ after: 0, limit: 1 }), { kind: 'gone' });
    assert.deepEqual((await target.changes.read({ after: position, limit: 1 })).changes, []);
  });

  it('gives each statement of a copy or an import an hour in PostgreSQL', async (t) => {
    const [from, to] = [await createDatabase(), await createDatabase()];
    const source = await openStore(from);
    await source.users.create({ name: 'Ada' });
    await source.close();
    await (await openStore(to)).close();
    // Each statement that reads users notes the timeout of its session.
    const note = `
      CREATE TABLE seen (statement_timeout text);
      CREATE FUNCTION note() RETURNS boolean LANGUAGE sql AS
        $$ INSERT INTO seen VALUES (current_setting('statement_timeout')) RETURNING true $$;
      ALTER TABLE users RENAME TO kept;
      CREATE VIEW users AS SELECT * FROM kept WHERE note()`;
    const sessions = [await openSession(t, from), await openSession(t, to)];
    for (const { query } of sessions) await query(note);
    const { code, stderr } = await runCommand(['copy', '--from', from, '--to', to]);
    assert.equal(code, 0, stderr);
    const input = '{"type":"user","id":1,"name":"Ada"}';
    const imported = await runCommand(['import', '--partial', '--database', to], { input });
    assert.equal(imported.code, 0, imported.stderr);
    for (const { query } of sessions) {
      assert.deepEqual(await query('SELECT DISTINCT * FROM seen'), [{ statement_timeout: '1h' }]);
    }
  });

  it('can be repeated and completed after it was killed', async () => {
    const { a, b } = await filledStore(addManyPosts);
    const lastId = await killAfterFirstBatch(b, ['copy', '--from', a, '--to', b]);
    assert.equal(lastId, manyPosts, 'the target must not assign ids of the source');
    const copied = await runCommand(['copy', '--from', a, '--to', b]);
    assert.equal(copied.code, 0, copied.stderr);
    assert.match(copied.stdout, /^copied 802 records, /);
  });

  it('accepts a copy of the files of the source, which has the same records', async () => {
    const { a, b } = twoStores();
    await fillStore(a);
    await fillStore(b);
    const { code, stdout, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^copied 10 records, /);
  });

  /** Calls `write` each time that a command has read all users of a store. */
  function writeDuringCopy(t: TestContext, to: string, write: (store: Store) => Promise<unknown>): void {
    const scheme = storeSchemes.find(({ pattern }) => pattern.test(to));
    assert.ok(scheme);
    const { open } = scheme;
    t.mock.method(scheme, 'open', async (url: string, options: StoreOptions): Promise<Store> => {
      const store = await open(url, options);
      const exportRows: Store['exportRows'] = async (kind, after, limit) => {
        if (url === to && kind === 'posts' && after === 0) await write(store);
        return await store.exportRows(kind, after, limit);
      };
      return { ...store, exportRows };
    });
  }

  it('fails if the source is written meanwhile', async (t) => {
    const { a, b } = await filledStore();
    writeDuringCopy(t, a, (store) => store.users.update(1, { name: 'changed' }));
    const { code, stdout, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^users-service: the source was written while it was copied; stop writing to it,/m);
  });

  it('fails if the target is written meanwhile', async (t) => {
    const { a, b } = await filledStore();
    let reads = 0;
    writeDuringCopy(t, b, async (store) => {
      reads += 1;
      // The first read is before the copy.
      if (reads === 2) await store.posts(1).create({ title: 'New', body: '' });
    });
    const { code, stdout, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^users-service: the copy differs: 10 records were read and 11 are there; stop /m);
  });

  it('leaves out the new post of a new user, and reports the write to the source', async (t) => {
    const { a, b } = await filledStore(({ users }) => users.create({ name: 'Ada' }));
    writeDuringCopy(t, a, async (store) => {
      const { value: user } = await store.users.create({ name: 'New' });
      await store.posts(user.id).create({ title: 'New', body: '' });
    });
    const { code, stdout, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
    assert.deepEqual([code, stdout], [1, '']);
    const message =
      'the source was written while it was copied; stop writing to it, and copy into an empty store';
    assert.match(stderr, new RegExp(`^users-service: ${message}$`, 'm'));
    await using target = await openStore(b);
    assert.deepEqual((await target.summary()).posts, { count: 0, lastId: 0 });
  });

  for (const command of ['copy', 'export']) {
    it(`fails like every ${command} of a database of another program, and creates no table there`, async (t) => {
      const url = await createDatabase();
      const { query } = await openSession(t, url);
      await query('CREATE TABLE invoices (id integer)');
      const target = newStore();
      const args = command === 'copy' ? ['--from', url, '--to', target] : ['--database', url];
      const { code, stdout, stderr } = await runCommand([command, ...args]);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, / cannot be used: it has no tables of this service$/m);
      const tables = `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`;
      assert.deepEqual(await query(tables), [{ tablename: 'invoices' }]);
    });
  }

  it('copies an empty store', async () => {
    const { a, b } = twoStores();
    await (await openStore(a)).close();
    for (const attempt of ['first', 'second']) {
      const { code, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
      assert.equal(code, 0, `${attempt}: ${stderr}`);
    }
  });

  it('rejects a target with other data, and does not change it', async (t) => {
    const { a, b } = await filledStore();
    const target = closeAfter(t, await openStore(b));
    await target.users.create({ name: 'another user' });
    const { code, stderr } = await runCommand(['copy', '--from', a, '--to', b]);
    assert.equal(code, 1);
    assert.match(stderr, /the target contains other records: user 1/);
    assert.deepEqual(await target.summary(), {
      ...byKind(() => ({ count: 0, lastId: 0 })),
      users: { count: 1, lastId: 1 },
    });
  });

  it('changes nothing in a store that is the source too, at another URL', async (t) => {
    const { folder, a } = await filledStore();
    const store = closeAfter(t, await openStore(a));
    const stateOf = async () => [await store.summary(), await store.changes?.position()];
    const before = await stateOf();
    const link = join(folder, 'link.db');
    await symlink(a.slice('sqlite:'.length), link);
    const { code, stderr } = await runCommand(['copy', '--from', a, '--to', `sqlite:${link}`]);
    assert.equal(code, 0, stderr);
    assert.deepEqual(await stateOf(), before);
  });

  const wrong: readonly (readonly [args: string[], message: RegExp, code: number])[] = [
    [[], /usage: users-service copy/, 2],
    [['--from', 'memory:'], /usage: users-service copy/, 2],
    [['--frm', 'memory:'], /--frm/, 2],
    [['--from', 'sqlite:/nowhere/a.db', '--to', 'sqlite:x.db'], / \/nowhere\S+: there is no such file$/m, 1],
    [['--from', 'ftp://x', '--to', 'memory:'], /--from must be .*, not "ftp:\/\/x"/, 2],
    [['--from', 'memory:', '--to', 'mysql://u:hunter2@h/x'], /--to must be .*\(hidden\)@h/, 2],
    [['--from', 'memory:', '--to', 'sqlite:x.db'], /memory: loses its records when its process ends/, 2],
    [['--from', 'sqlite:x.db', '--to', 'sqlite:x.db'], /--from and --to are the same store$/m, 2],
    [['--from', 'sqlite:x.db', '--to', 'memory:'], /memory: loses its records when its process ends/, 2],
    [['--from', 'postgres://u:hunter2@127.0.0.1:1/x', '--to', 'sqlite:x.db'], /127\.0\.0\.1/, 1],
  ];
  for (const [args, message, expected] of wrong) {
    it(`fails for ${args.join(' ')} with one clear line and exit code ${expected}`, async () => {
      const { code, stderr } = await runCommand(['copy', ...args]);
      assert.equal(code, expected, stderr);
      assert.match(stderr, message);
      assert.equal(stderr.trim().split('\n').length, 1, stderr);
      assert.doesNotMatch(stderr, /hunter2/);
    });
  }
});

describe('backup', () => {
  it('creates a complete copy of a store that is being written to', async (t) => {
    const folder = temporaryFolder();
    const database = `sqlite:${join(folder, 'live.db')}`;
    const server = await startProcess(t, [...withoutGrpc, '--database', database]);
    let stop = false;
    let created = 0;
    const writing = (async () => {
      while (!stop) {
        const body = JSON.stringify({ name: `n${created}` });
        const headers = { 'content-type': 'application/json' };
        const response = await fetch(`${server.http}/users`, { method: 'POST', headers, body });
        assert.equal(response.status, 201, await response.text());
        created += 1;
      }
    })();
    const file = join(folder, 'copy.db');
    const { code, stderr, stdout } = await runCommand(['backup', file, '--database', database]);
    stop = true;
    await writing;
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^backed up sqlite:.*live\.db to .*copy\.db\n$/);
    const copy = closeAfter(t, await openStore(`sqlite:${file}`));
    const { users } = await copy.summary();
    assert.equal(users.count, users.lastId);
    assert.ok(users.count <= created);
  });

  it('rejects an existing target, a PostgreSQL database and a missing file name', async () => {
    const { folder, a: database } = await filledStore();
    const existing = await runCommand(['backup', join(folder, 'a.db'), '--database', database]);
    assert.match(existing.stderr, /exists already/);
    assert.ok((await stat(join(folder, 'a.db'))).size > 0);
    assert.match((await runCommand(['backup', 'x', '--database', 'postgres://h/x'])).stderr, /pg_dump/);
    assert.equal((await runCommand(['backup'])).code, 2);
    const piped = await runCommand(['backup', '-', '--database', database]);
    assert.deepEqual(
      [piped.code, piped.stderr],
      [2, 'users-service: usage: users-service backup FILE [--database URL]\n'],
    );
    const unknown = await runCommand(['backup', 'x'], { env: { DATABASE_URL: 'mysql://u:hunter2@h/x' } });
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /^users-service: DATABASE_URL must be .*\(hidden\)@h\/x"\n$/);
  });
});
