import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addUsers, columnOf, type Fixture, rejects } from './fixture.ts';
import { addSample, feedOf, firstChanges, follow, whatOf } from './follow.ts';

export function testFeed(fixture: Fixture): void {
  const { it, itRestarts } = fixture;
  describe('the feed of changes', () => {
    test('is empty at first', async (t) => {
      const feed = feedOf(await fixture.open(t));
      assert.equal(await feed.position(), 0);
      assert.deepEqual(await feed.read({ after: 0, limit: 1 }), { changes: [], next: 0, more: false });
    });

    it('contains the time of each change, in UTC with milliseconds', async (repository) => {
      await addUsers(repository, 'Ada');
      const [change] = await firstChanges(repository, 1);
      assert.match(String(change?.time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      const agoMs = Date.now() - Date.parse(String(change?.time));
      assert.ok(Math.abs(agoMs) < 60_000, `${agoMs} ms ago`);
    });

    it('contains the origin of each write, as far as it is known', async (repository) => {
      const origins = [{ requestId: 'a-1', key: 'ops' }, { requestId: 'a "2"' }, { key: 'ops' }, {}];
      for (const origin of origins) await repository.users.create({ name: 'Ada' }, { origin });
      await repository.users.update(1, { name: 'Eve' });
      const changes = await firstChanges(repository, origins.length + 1);
      assert.deepEqual(columnOf(changes, 'origin'), [...origins, {}]);
    });

    it('contains each write of 32 writers once, and those of a record in order of version', async (repository) => {
      const updates = 4;
      const writer = async (i: number): Promise<void> => {
        const { value } = await repository.users.create({ name: `${i}` });
        for (let n = 1; n <= updates; n += 1) await repository.users.update(value.id, { name: `${i}.${n}` });
        // All writers change the first user as well.
        await repository.users.update(1, { role: `of ${i}` });
        if (value.id !== 1) await repository.users.delete(value.id);
      };
      await repository.users.create({ name: 'first' });
      const writing = Promise.all(Array.from({ length: 32 }, (_, i) => writer(i)));
      const total = 1 + 32 * (updates + 3);
      const feed = feedOf(repository);
      const followers = await Promise.all(
        [1, 7, 1_000].map((limit) => follow(feed, ({ length }) => length >= total, { limit })),
      );
      await writing;
      for (const changes of followers)
        assert.deepEqual(changes, followers[0], 'followers read different changes');
      const [changes = []] = followers;
      assert.equal(changes.length, total);
      const versions = new Map<number, number>();
      for (const { type, record } of changes) {
        const before = versions.get(record.id) ?? 0;
        assert.equal(record.version, type === 'user.deleted' ? before : before + 1, `${type} ${record.id}`);
        versions.set(record.id, record.version);
      }
      assert.deepEqual([...versions.values()].slice(1), Array(32).fill(updates + 1));
    });

    test('is absent if no changes are kept, and the repository works without it', async (t) => {
      const repository = await fixture.open(t, { changesKept: 0 });
      assert.equal(repository.changes, undefined);
      await addUsers(repository, 'Ada', 'Bob');
      await repository.posts(1).create({ title: 'Title', body: '' });
      assert.equal((await repository.users.update(1, { name: 'Eve' }))?.version, 2);
      assert.equal((await repository.posts(1).update(1, { title: 'Other' }))?.version, 2);
      assert.equal(await repository.users.delete(1), true);
      assert.equal(await repository.users.count({}), 1);
    });

    it('wakes each watcher until it stops watching', async (repository, t) => {
      const feed = feedOf(repository);
      const woken = [0, 0];
      const wakes = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
      const unwatch = feed.watch(() => {
        woken[0] = Number(woken[0]) + 1;
        wakes[0]?.resolve();
      });
      feed.watch(() => {
        wakes[woken[1] === 0 ? 1 : 2]?.resolve();
      });
      t.after(unwatch);
      await addUsers(repository, 'Ada');
      await Promise.all([wakes[0]?.promise, wakes[1]?.promise]);
      unwatch();
      unwatch();
      const before = woken[0];
      woken[1] = 1;
      await addUsers(repository, 'Bob');
      await wakes[2]?.promise;
      assert.equal(woken[0], before);
    });

    it('fails as unavailable after close, and as cancelled with an aborted signal', async (repository) => {
      await addUsers(repository, 'Ada');
      const feed = feedOf(repository);
      feed.watch(() => undefined);
      const signal = AbortSignal.abort();
      await rejects(feed.read({ after: 0, limit: 1 }, { signal }), 'cancelled');
      await rejects(feed.position({ signal }), 'cancelled');
      await repository.close();
      await rejects(feed.read({ after: 0, limit: 1 }), 'unavailable');
      await rejects(feed.position(), 'unavailable');
      assert.throws(() => feed.watch(() => undefined), { kind: 'unavailable' });
    });

    itRestarts('continues after a restart', async (repository, t) => {
      const before = await addSample(repository);
      const again = await fixture.restart(t, repository);
      await addUsers(again, 'next');
      const changes = await firstChanges(again, 11);
      assert.deepEqual(changes.slice(0, 10), before);
      assert.deepEqual(changes.slice(10).map(whatOf), [
        ['user.created', { id: 3, name: 'next', version: 1 }],
      ]);
    });
  });
}
