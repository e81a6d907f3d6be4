import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { rejects } from '../../../src/conformance/fixture.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import { examineSqlite } from '../../../src/storage/sqlite/examine.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { backupSqlite, openSqliteScratch } from '../../../src/storage/sqlite/tools.ts';
import { temporaryFolder } from '../../support/temporary.ts';

/** Each function makes links below a folder, and returns a path that leads to `volume/users.db` through them. */
const links: Readonly<Record<string, (folder: string) => string>> = {
  'a relative link': (folder) => linked('volume/users.db', join(folder, 'users.db')),
  'an absolute link': (folder) => linked(join(folder, 'volume/users.db'), join(folder, 'users.db')),
  'a link to a link': (folder) => linked(linked('volume/users.db', join(folder, 'a')), join(folder, 'b')),
  'a link in a linked folder': (folder) => {
    mkdirSync(join(folder, 'one/two'), { recursive: true });
    linked('../../volume/users.db', join(folder, 'one/two/users.db'));
    return join(linked('one/two', join(folder, 'data')), 'users.db');
  },
  'a linked folder': (folder) => join(linked('volume', join(folder, 'data')), 'users.db'),
};

function linked(target: string, path: string): string {
  symlinkSync(target, path);
  return path;
}

async function open(t: TestContext, path: string) {
  const store = await openSqliteStore(path);
  t.after(() => store.close());
  return store;
}

/** Another process that creates a user, and prints its id. */
async function createElsewhere(path: string): Promise<string> {
  const program = fileURLToPath(new URL('./child.ts', import.meta.url));
  return (await promisify(execFile)(process.execPath, [program, 'create', path])).stdout.trim();
}

for (const [what, link] of Object.entries(links)) {
  describe(`a SQLite file that is reached through ${what}`, () => {
    it('keeps writes over a restart, with all its files beside the real one', async (t) => {
      const folder = temporaryFolder();
      mkdirSync(join(folder, 'volume'));
      writeFileSync(join(folder, 'volume/users.db'), '');
      const path = link(folder);
      const store = await openSqliteStore(path);
      await store.users.create({ name: 'Ada' });
      await store.ping();
      assert.deepEqual(readdirSync(join(folder, 'volume')), ['users.db', 'users.db-shm', 'users.db-wal']);
      await store.close();
      assert.equal((await (await open(t, path)).users.get(1))?.name, 'Ada');
    });

    it('is created at the real path, with a missing folder', async (t) => {
      const folder = temporaryFolder();
      const path = link(folder);
      const found = examineSqlite(path).map(({ level, what }) => `${level} ${what}`);
      assert.match(found[0] ?? '', /^ok \S+\/volume\/users\.db does not exist yet/);
      const store = await open(t, path);
      await store.users.create({ name: 'Ada' });
      await store.ping();
      assert.ok(existsSync(join(folder, 'volume/users.db')));
    });

    it('is shared with a process that uses the real path', async (t) => {
      const folder = temporaryFolder();
      const [path, real] = [link(folder), join(folder, 'volume/users.db')];
      const store = await open(t, path);
      assert.equal((await store.users.create({ name: 'Ada' })).value.id, 1);
      assert.equal(await createElsewhere(real), '2');
      assert.equal((await store.users.create({ name: 'Bob' })).value.id, 3);
      const other = await open(t, real);
      for (const one of [store, other]) assert.equal(await one.users.count({}), 3);
    });
  });
}

describe('a SQLite file behind a link that is in use', () => {
  const removed = (place: string) => `the file ${place} has been removed or replaced`;

  async function start(t: TestContext) {
    const folder = temporaryFolder();
    const path = linked('volume/users.db', join(folder, 'users.db'));
    const store = await open(t, path);
    await store.users.create({ name: 'Ada' });
    const refusesWrites = async (problem: string) => {
      for (let i = 0; i < 3; i += 1) await rejects(store.users.create({ name: 'Eve' }), 'unavailable');
      const error = await store.ping().catch((caught: unknown) => caught);
      assert(error instanceof DomainError);
      assert.equal(error.kind, 'unavailable');
      assert.ok(String(error.cause).includes(problem), String(error.cause));
      assert.equal((await store.users.get(1))?.name, 'Ada');
    };
    return { path, real: join(folder, 'volume/users.db'), store, refusesWrites };
  }

  it('is examined with its log', async (t) => {
    const { path, real } = await start(t);
    renameSync(`${real}-shm`, `${real}-shm.away`);
    const found = examineSqlite(path).map(({ what }) => what);
    const problem = `${real}-wal has the latest writes, but ${real}-shm is missing, so the data is not checked`;
    assert.ok(found.includes(problem), found.join('\n'));
    renameSync(`${real}-shm.away`, `${real}-shm`);
  });

  it('is backed up with its latest writes', async (t) => {
    const { path } = await start(t);
    await backupSqlite(path, `${path}.backup`);
    assert.equal((await (await open(t, `${path}.backup`)).users.get(1))?.name, 'Ada');
  });

  it('has its temporary copies beside the real file, on the same disk', async (t) => {
    const { path, real } = await start(t);
    const scratch = await openSqliteScratch(path);
    t.after(() => scratch.remove());
    assert.ok((await scratch.next()).startsWith(`sqlite:${real}.verify-`));
  });

  for (const suffix of ['', '-wal', '-shm']) {
    it(`accepts no writes while the real users.db${suffix} is missing`, async (t) => {
      const { real, store, refusesWrites } = await start(t);
      renameSync(real + suffix, `${real}.away`);
      await refusesWrites(removed(real + suffix));
      renameSync(`${real}.away`, real + suffix);
      await store.users.create({ name: 'Bob' });
      await store.ping();
    });
  }

  for (const [target, problemAt] of [
    ['other.db', removed],
    ['missing.db', removed],
    ['users.db', (path: string) => `ELOOP: too many symbolic links encountered, stat '${path}'`],
  ] as const) {
    it(`accepts no writes while the link leads to ${target}, which the next start would use`, async (t) => {
      const { path, store, refusesWrites } = await start(t);
      writeFileSync(join(dirname(path), 'other.db'), '');
      renameSync(path, `${path}.old`);
      linked(target, path);
      await refusesWrites(problemAt(path));
      renameSync(path, `${path}.old`);
      linked('volume/users.db', path);
      await store.users.create({ name: 'Bob' });
      await store.ping();
    });
  }

  it('accepts no writes after the file was moved without its log, and the link with it', async (t) => {
    const { path, real, refusesWrites } = await start(t);
    renameSync(real, `${path}.moved`);
    renameSync(path, `${path}.old`);
    linked(`${path}.moved`, path);
    await refusesWrites(removed(real));
  });
});

describe('a SQLite path of links that lead to each other', () => {
  it('is rejected by the store, and reported by the examination', async () => {
    const folder = temporaryFolder();
    const path = linked('b', join(folder, 'a'));
    linked('a', join(folder, 'b'));
    await assert.rejects(openSqliteStore(path), /cannot open the SQLite file \S+: ELOOP/);
    const [{ level, what } = { level: '', what: '' }] = examineSqlite(path);
    assert.match(`${level} ${what}`, /^fail ELOOP/);
  });
});
