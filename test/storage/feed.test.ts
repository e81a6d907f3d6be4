import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { feedOf, follow } from '../../src/conformance/follow.ts';
import { importPosition } from '../../src/domain/change.ts';
import type { Store } from '../../src/domain/repository.ts';
import { openStore, type StoreOptions } from '../../src/storage/open.ts';
import { openTestPostgres, patient } from '../kit/postgres.ts';
import { closeAfter } from '../support/close-after.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { checkFeed, followTogether, isWhole, Replica, writeAtRandom } from './random-writes.ts';

const postgres = await openTestPostgres();
after(() => postgres.close());

const stores: Readonly<Record<string, (options?: StoreOptions) => Promise<Store>>> = {
  memory: (options) => openStore('memory:', options),
  SQLite: (options) => openStore(`sqlite:${join(temporaryFolder(), 'users.db')}`, options),
  PostgreSQL: async (options) => openStore(await postgres.createDatabase(), { ...patient, ...options }),
};

for (const [name, open] of Object.entries(stores)) {
  const seed = Math.floor(Math.random() * 1_000_000);
  describe(`the feed of ${name} under random writes (seed ${seed})`, () => {
    it('gives all followers the same changes, and they add up to the content of the store', async (t) => {
      const store = closeAfter(t, await open());
      const feed = feedOf(store);
      const load = { seed, writers: 16, writes: 30 };
      const [changes] = await Promise.all([followTogether(feed, load), writeAtRandom(store, load)]);
      await checkFeed(store, feed, changes);
    });

    it('brings a list that was read during writes to the current state', async (t) => {
      const store = closeAfter(t, await open());
      const feed = feedOf(store);
      const load = { seed: seed + 1, writers: 8, writes: 30 };
      const writing = writeAtRandom(store, load);
      const replicate = async (): Promise<Replica> => {
        const replica = new Replica();
        const after = await feed.position();
        await replica.list(store);
        const known = [...replica.kinds.users.values()].map((record) => ({ record }));
        const changes = await follow(feed, (read) => isWhole(load)([...read, ...known]), { after });
        for (const change of changes) replica.apply(change);
        return replica;
      };
      const replicas: Promise<Replica>[] = [];
      for (let i = 0; i < 20; i += 1) {
        replicas.push(replicate());
        await nextTurn();
      }
      await writing;
      const present = new Replica();
      await present.list(store);
      for (const replica of await Promise.all(replicas)) assert.deepEqual(replica.records, present.records);
    });

    it('contains the deleted posts of a user by id, however they were imported', async (t) => {
      const store = closeAfter(t, await open());
      const feed = feedOf(store);
      await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
      const posts = [5, 9, 2].map((id) => ({ id, userId: 1, title: 'a', body: '', version: 1 }));
      await store.importRows('posts', posts);
      const after = await feed.position();
      await store.users.delete(1);
      const changes = await follow(feed, ({ length }) => length === 4, { after });
      const ids = changes.map(({ record }) => record.id);
      assert.deepEqual(ids, [2, 5, 9, 1]);
    });

    it('continues after an import at the time in microseconds, which no source has reached', async (t) => {
      const store = closeAfter(t, await open());
      const before = importPosition();
      await store.importRows('users', [{ id: 1, name: 'Ada', version: 1 }]);
      assert.ok((await feedOf(store).position()) >= before);
    });

    it('wakes every watcher although one of them fails, and a function once for each watch', async (t) => {
      const failures = new Set<unknown>();
      const { setInterval } = globalThis;
      t.mock.method(globalThis, 'setInterval', (run: () => void, ms: number) => {
        const runSafely = () => {
          try {
            run();
          } catch (caught) {
            failures.add(caught);
          }
        };
        return setInterval(runSafely, ms);
      });
      const store = closeAfter(t, await open());
      const feed = feedOf(store);
      const failure = new Error('a watcher failed');
      let woken = Promise.withResolvers<void>();
      const wake = () => woken.resolve();
      feed.watch(() => {
        throw failure;
      });
      const unwatch = feed.watch(wake);
      feed.watch(wake);
      for (let i = 0; i < 2; i += 1) {
        await woken.promise;
        woken = Promise.withResolvers<void>();
        unwatch();
      }
      assert.deepEqual([...failures], [failure]);
    });

    it('rejects a number of kept changes that is out of range', async () => {
      for (const changesKept of [-1, 0.5, 100_000_001, Number.NaN]) {
        await assert.rejects(
          open({ changesKept }),
          /^RangeError: changesKept must be a whole number from 0 to/,
        );
      }
    });
  });
}
