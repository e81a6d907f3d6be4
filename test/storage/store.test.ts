import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { feedOf } from '../../src/conformance/follow.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { bodiesOf } from '../../src/domain/kinds.ts';
import { recordKinds } from '../../src/domain/record.ts';
import type { Store } from '../../src/domain/repository.ts';
import { openStore } from '../../src/storage/open.ts';
import { createStore } from '../../src/storage/store.ts';
import { fromNames, tables } from '../../src/storage/tables.ts';
import { refuses } from '../domain/refuses.ts';
import { closeAfter } from '../support/close-after.ts';
import { temporaryFolder } from '../support/temporary.ts';

const folder = temporaryFolder();
const byId = [{ field: 'id', descending: false }] as const;
const query = { filter: {}, sort: byId, limit: 20, start: { offset: 0 } };

describe('the watchers of a store', () => {
  it('do not keep the process alive', async (t) => {
    const store = await openStore('memory:');
    const countTimers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = countTimers();
    t.after(feedOf(store).watch(() => undefined));
    assert.equal(countTimers(), before);
  });

  it('are not called after another one has ended them', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const store = await openStore('memory:');
    const feed = feedOf(store);
    const called: string[] = [];
    const first = feed.watch(() => {
      called.push('first');
      first();
      second();
    });
    const second = feed.watch(() => called.push('second'));
    t.mock.timers.tick(1_000);
    assert.deepEqual(called, ['first']);
  });

  it('are forgotten when they stop watching', async (t) => {
    const store = await openStore('memory:');
    feedOf(store).watch(() => undefined)();
    const clear = t.mock.method(globalThis, 'clearInterval');
    await store.close();
    assert.equal(clear.mock.callCount(), 0);
  });
});

it('a store of `await using` is closed at the end of its block', async () => {
  let kept: Store | undefined;
  {
    await using store = await openStore('memory:');
    kept = store;
    await store.ping();
  }
  await assert.rejects(kept.ping(), { message: 'the store is closed' });
});

describe('a store that responds at once', () => {
  it('does not read the signal of a caller unless it is aborted', async (t) => {
    const store = closeAfter(t, await openStore(`sqlite:${folder}/signal.db`));
    const options = {
      isAborted: false,
      get signal(): AbortSignal {
        throw new Error('the signal was read');
      },
    };
    assert.equal(store.users.get(1, options), undefined);
    assert.equal(store.posts(1).get(1, options), undefined);
    assert.deepEqual((await store.users.list(query, options)).items, []);
  });

  it('rejects a call whose signal is already aborted', async (t) => {
    const store = closeAfter(t, await openStore('memory:'));
    const options = { isAborted: true, signal: AbortSignal.abort() };
    await assert.rejects(async () => store.users.get(1, options), { kind: 'cancelled' });
  });
});

for (const url of ['memory:', `sqlite:${folder}/fields.db`]) {
  it(`a store at ${url.slice(0, 6)} takes only the fields of a record that a host gives a value`, async (t) => {
    const store = closeAfter(t, await openStore(url));
    const { value: ada } = await store.users.create({ name: 'Ada', role: 'x' });
    await store.posts(1).create({ title: 'a', body: '' });
    const nameless: object = { name: undefined };
    const elsewhere: object = { id: 7, userId: 2, version: 9 };
    assert.deepEqual(await store.users.update(1, nameless), ada);
    assert.deepEqual(await store.users.update(1, elsewhere), ada);
    assert.equal((await store.posts(1).update(1, { title: 'b', ...elsewhere }))?.userId, 1);
    const eve = { id: 3, name: 'Eve', version: 1 };
    const roleless = { role: undefined, ...eve };
    assert.equal(await store.importRows('users', [roleless as typeof eve]), 1);
    assert.equal(await store.importRows('users', [eve]), 0);
    assert.deepEqual(await store.exportRows('users', 0, 10), [ada, eve]);
  });
}

describe('a watcher of the feed', () => {
  it('is called 50 times a second, until it stops watching or the store closes', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const store = await openStore('memory:');
    const feed = feedOf(store);
    const woken = [0, 0, 0];
    const [first, , last] = woken.map((_, i) => feed.watch(() => (woken[i] = Number(woken[i]) + 1)));
    t.mock.timers.tick(1_000);
    first?.();
    t.mock.timers.tick(1_000);
    assert.deepEqual(woken, [50, 100, 100]);
    last?.();
    await store.close();
    t.mock.timers.tick(1_000);
    assert.deepEqual(woken, [50, 100, 100]);
  });
});

describe('a record as it was stored before a column was added', () => {
  it('does not have the new field', () => {
    const row = { id: 1, name: 'Ada', version: 1 };
    assert.deepEqual(fromNames(tables.users.columns, row), row);
  });
});

describe('an error of a backend', () => {
  for (const [when, ping] of [
    ['at once', () => assert.fail('broken')],
    ['later', () => Promise.reject(new Error('broken'))],
  ] as const) {
    it(`that a call throws ${when} is converted`, async () => {
      const toError = () => new DomainError('unavailable', 'the store is not available');
      const backend = { operations: {}, toError, ping } as unknown as Parameters<typeof createStore>[0];
      await assert.rejects(createStore(backend).ping(), { kind: 'unavailable' });
    });
  }
});

describe('the posts of a user', () => {
  it('can be cancelled, also while their user is read, because there are none', async () => {
    const seen: unknown[] = [];
    const see = (_: unknown, options: unknown) => void seen.push(options);
    const list = (...args: [unknown, unknown]) => see(...args) ?? [];
    const count = (...args: [unknown, unknown]) => see(...args) ?? 0;
    const operations = { users: { get: see }, posts: { list, count } };
    const { posts } = createStore({ operations } as unknown as Parameters<typeof createStore>[0]);
    const options = { signal: new AbortController().signal };
    assert.equal(await posts(1).list(query, options), undefined);
    assert.equal(await posts(1).count({}, options), undefined);
    assert.deepEqual(seen, Array(4).fill(options));
  });

  it('are only those of this user, whatever the filter contains', async () => {
    const store = await openStore('memory:');
    for (const name of ['Ada', 'Bob']) await store.users.create({ name });
    await store.posts(2).create({ title: 'of Bob', body: '' });
    const filter: object = { userId: 2 };
    const query = { filter, sort: byId, limit: 1, start: { offset: 0 } } as const;
    assert.deepEqual((await store.posts(1).list(query))?.items, []);
    assert.equal(await store.posts(1).count(filter), 0);
    await store.close();
  });
});

describe('the value of a column for an absent field', () => {
  for (const kind of recordKinds) {
    for (const { field, absent } of tables[kind].columns.filter((column) => column.absent !== undefined)) {
      it(`is not a value of the ${field} of ${kind}`, () =>
        refuses(() => bodiesOf[kind].parsePatch({ [field]: absent }), field));
    }
  }
});
