import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { DomainError } from '../../src/domain/errors.ts';
import { openStore, persistentUrlForms, sqlitePath, urlForms } from '../../src/storage/open.ts';
import { closeAfter } from '../support/close-after.ts';
import { temporaryFolder } from '../support/temporary.ts';

const folder = temporaryFolder();

describe('openStore', () => {
  it('opens memory:', async (t) => {
    const store = closeAfter(t, await openStore('memory:'));
    assert.deepEqual((await store.users.create({ name: 'Ada' })).value, { id: 1, name: 'Ada', version: 1 });
  });

  for (const [what, url, file] of [
    ['an absolute path', `sqlite:${folder}/absolute.db`, 'absolute.db'],
    ['an absolute path after an empty authority', `sqlite://${folder}/authority.db`, 'authority.db'],
    ['a relative path', `sqlite:${relative('.', folder)}/relative.db`, 'relative.db'],
    ['a path with %, ? and # unchanged', `sqlite:${folder}/a%20b?mode=ro#c.db`, 'a%20b?mode=ro#c.db'],
    ['a path in folders that are missing', `sqlite:${folder}/new/newer/users.db`, 'new/newer/users.db'],
  ] as const) {
    it(`opens a SQLite file by ${what}`, async (t) => {
      const store = closeAfter(t, await openStore(url));
      await store.ping();
      assert.ok(existsSync(join(folder, file)));
    });
  }

  it('lists the forms of URLs whose records outlive the process', () => {
    assert.equal(persistentUrlForms, urlForms.replace('memory: or ', ''));
  });

  it('passes the options on', async (t) => {
    const bounded = closeAfter(t, await openStore(`sqlite:${folder}/bounded.db`, { maxPendingWrites: 1 }));
    const writing = bounded.users.create({ name: 'Ada' });
    await assert.rejects(bounded.users.create({ name: 'Bob' }), { kind: 'overloaded' });
    await writing;
    await assert.rejects(openStore(`sqlite:${folder}/bounded.db`, { maxPendingWrites: 0 }), RangeError);

    let now = 0;
    const timed = closeAfter(t, await openStore('memory:', { now: () => now, idempotencyTtlMs: 10 }));
    const options = { idempotency: { key: 'k', fingerprint: 'f' } };
    await timed.users.create({ name: 'Ada' }, options);
    now = 10;
    assert.equal((await timed.users.create({ name: 'Ada' }, options)).replayed, false);
  });

  for (const url of [
    '',
    'memory',
    'memory:x',
    'memory://',
    'MEMORY:',
    ' memory:',
    'sqlite',
    'sqlite:',
    'sqlite://',
    'sqlite://data/users.db',
    'sqlite::memory:',
    'SQLITE:users.db',
    'file:users.db',
    'users.db',
    '/var/lib/users.db',
    'postgres',
    'postgres:',
    'postgres://',
    'postgres:users',
    'postgresql:users',
    'pg://host/users',
    'mysql://user:s3cret@host/users',
    'xpostgres://user:s3cret@host/users',
    'http://user:s3cret@host',
    'user:s3cret@host',
    's3cret:5432',
    '//user:s3cret@host',
  ]) {
    it(`rejects ${JSON.stringify(url)}, with the allowed forms and without the password`, async (t) => {
      // A URL that is opened by mistake would create its file here.
      const directory = process.cwd();
      t.after(() => process.chdir(directory));
      process.chdir(folder);
      await assert.rejects(openStore(url), (error) => {
        assert(error instanceof DomainError);
        assert.equal(error.kind, 'invalid');
        for (const form of ['memory:', 'sqlite:PATH', 'postgres://']) assert.ok(error.message.includes(form));
        assert.ok(!`${error.stack}${String(error.cause)}`.includes('s3cret'));
        return true;
      });
    });
  }

  for (const [url, readDatabase] of [
    ['memory:', 'postgres://h/x'],
    ['postgres://h/x', `sqlite:${folder}/standby.db`],
    ['postgres://h/x', 'h'],
    ['memory:', 'memory:'],
    ['postgres://h/x', 'postgres://u:12#x@h/x'],
  ] as const) {
    it(`rejects ${readDatabase} as standbys of ${url}`, async () => {
      await assert.rejects(openStore(url, { readDatabase }), {
        kind: 'invalid',
        message: 'readDatabase must be standbys of a postgres: database',
      });
    });
  }

  for (const url of ['memory:', 'sqlite:/nowhere', 'postgres://a@b/c']) {
    it(`rejects an unknown option for ${url}, with its name`, async () => {
      for (const name of ['poolsize', 'toString']) {
        const options = { poolSize: 1, busyTimeoutMs: 1, [name]: 1 };
        const error = { name: 'TypeError', message: `${name} is not an option` };
        await assert.rejects(openStore(url, options), error);
      }
    });
  }

  it('reads and checks a number that an object of options inherits', async () => {
    const options: object = Object.create({ changesKept: -1 });
    const error = { name: 'RangeError', message: /^changesKept must be a whole number from 0 to / };
    for (const url of ['memory:', 'sqlite:/nowhere', 'postgres://a@b/c']) {
      await assert.rejects(openStore(url, options), error);
    }
  });

  it('ignores an option that is undefined', async () => {
    const names = ['now', 'onCreated', 'onWarning', 'applicationName', 'mustExist', 'maxPendingWrites'];
    const options: object = Object.fromEntries(names.map((name) => [name, undefined]));
    for (const url of ['memory:', `sqlite:${folder}/undefined.db`]) {
      const store = await openStore(url, options);
      await store.ping();
      await store.close();
    }
  });

  it('rejects an option mustExist that is not a boolean', async () => {
    const error = { name: 'TypeError', message: 'mustExist must be a boolean' };
    for (const mustExist of ['false', null]) {
      const options: object = { mustExist };
      for (const url of ['memory:', 'sqlite:/nowhere', 'postgres://a@b/c']) {
        await assert.rejects(openStore(url, options), error);
      }
    }
  });

  it('rejects an option applicationName that is not a string', async () => {
    const options: object = { applicationName: 5 };
    const error = { name: 'TypeError', message: 'applicationName must be a string' };
    for (const url of ['memory:', 'sqlite:/nowhere', 'postgres://a@b/c']) {
      await assert.rejects(openStore(url, options), error);
    }
  });

  it('names the range of a number that is given as text', async () => {
    const options: object = { changesKept: '5' };
    const message = /^changesKept must be a whole number from 0 to \d+, not "5"$/;
    await assert.rejects(openStore('memory:', options), { name: 'RangeError', message });
  });

  for (const name of ['now', 'onCreated', 'onWarning', 'onFailure', 'onStandbyRead']) {
    it(`rejects an option ${name} that is not a function, before it creates a file`, async () => {
      const file = join(folder, `${name}.db`);
      const error = { name: 'TypeError', message: `${name} must be a function` };
      for (const url of ['memory:', `sqlite:${file}`, 'postgres://a@b/c']) {
        for (const value of [5, null]) await assert.rejects(openStore(url, { [name]: value }), error);
      }
      assert.equal(existsSync(file), false);
    });
  }

  for (const [url, module] of [
    ['memory:', 'sqlite'],
    // It would take a twentieth of a start.
    [`sqlite:${folder}/light.db`, 'crypto'],
  ] as const) {
    it(`does not load node:${module} for ${url.replace(/:.*/, ':')}`, () => {
      const script = `
        const { openStore } = await import(${JSON.stringify(new URL('../../src/storage/open.ts', import.meta.url).href)});
        const store = await openStore(${JSON.stringify(url)});
        await store.ping();
        await store.close();
        process.stdout.write(String(process.moduleLoadList.includes('NativeModule ${module}')));`;
      const loaded = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
        encoding: 'utf8',
      });
      assert.equal(loaded, 'false');
    });
  }
});

describe('sqlitePath', () => {
  for (const [url, path] of [
    ['sqlite:users.db', 'users.db'],
    ['sqlite:./data/users.db', './data/users.db'],
    ['sqlite:/data/users.db', '/data/users.db'],
    ['sqlite:///data/users.db', '/data/users.db'],
    ['sqlite:C:\\data\\users.db', 'C:\\data\\users.db'],
    ['sqlite:a%20b?c', 'a%20b?c'],
  ] as const) {
    it(`returns ${path} for ${url}`, () => assert.equal(sqlitePath(url), path));
  }
});
