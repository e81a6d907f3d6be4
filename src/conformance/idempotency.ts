import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { DomainError } from '../domain/errors.ts';
import { idempotencyTtlMs } from '../domain/repository.ts';
import { type Fixture, keyed, rejects } from './fixture.ts';

// A repository that does not use `now` also ages by the time between two calls.
const marginMs = 60_000;

export function testIdempotency(fixture: Fixture): void {
  const { countKeys } = fixture.traits;

  /** An empty repository, and a function that ages its keys. */
  async function openTimed(t: TestContext) {
    let now = 1_000_000;
    const repository = await fixture.open(t, { now: () => now });
    const passTime = async (ms: number): Promise<void> => {
      now += ms;
      await fixture.traits.passTime?.(repository, ms);
    };
    return { repository, passTime };
  }

  const { it, itRestarts } = fixture;
  describe('idempotency', () => {
    it('creates a user for each request without a key, and one for each different key of up to 320 characters', async (repository) => {
      const longest = `${'n'.repeat(64)}\n${'k'.repeat(255)}`;
      const keys = ['k', 'K', 'k ', 'k'.repeat(255), longest, longest.replace(/.$/, 'K')];
      for (const options of [undefined, undefined, ...keys.map((key) => keyed(key))]) {
        const { replayed } = await repository.users.create({ name: 'Ada' }, options);
        assert.equal(replayed, false);
      }
      for (const key of keys)
        assert.equal((await repository.users.create({ name: 'Ada' }, keyed(key))).replayed, true);
      assert.equal(await repository.users.count({}), 8);
    });

    it('rejects a key that was used for another request', async (repository) => {
      await repository.users.create({ name: 'Ada' }, keyed('k', 'POST /users Ada'));
      await rejects(repository.users.create({ name: 'Eve' }, keyed('k', 'POST /users Eve')), 'unprocessable');
      const post = { title: 'title', body: '' };
      await rejects(repository.posts(1).create(post, keyed('k', 'POST /users/1/posts')), 'unprocessable');
      assert.equal(await repository.users.count({}), 1);
      assert.equal(await repository.posts(1).count({}), 0);
    });

    it('creates one user for 20 concurrent requests with one key', async (repository) => {
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, () => repository.users.create({ name: 'Ada' }, keyed('k'))),
      );
      const created = results.filter((result) => result.status === 'fulfilled').map(({ value }) => value);
      assert.equal(created.filter(({ replayed }) => !replayed).length, 1);
      for (const { value } of created) assert.deepEqual(value, { id: 1, name: 'Ada', version: 1 });
      for (const result of results) {
        if (result.status === 'rejected') assert.equal(DomainError.from(result.reason).kind, 'conflict');
      }
      assert.equal(await repository.users.count({}), 1);
      assert.equal((await repository.users.create({ name: 'Ada' }, keyed('k'))).replayed, true);
    });

    it('creates one user for 20 different concurrent requests with one key', async (repository) => {
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          repository.users.create({ name: `user ${i}` }, keyed('k', `${i}`)),
        ),
      );
      assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
      for (const result of results) {
        if (result.status === 'rejected') {
          assert.match(DomainError.from(result.reason).kind, /^(unprocessable|conflict)$/);
        }
      }
      assert.equal(await repository.users.count({}), 1);
    });

    it('creates 20 users for 20 concurrent requests with different keys', async (repository) => {
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => repository.users.create({ name: 'Ada' }, keyed(`key ${i}`))),
      );
      assert.equal(await repository.users.count({}), 20);
    });

    itRestarts('replays a request after a restart', async (repository, t) => {
      await repository.users.create({ name: 'Ada' }, keyed('k'));
      const again = await fixture.restart(t, repository);
      assert.equal((await again.users.create({ name: 'Ada' }, keyed('k'))).replayed, true);
      await rejects(again.users.create({ name: 'Eve' }, keyed('k', 'other')), 'unprocessable');
    });

    test('keeps a key until it expires, and not longer', async (t) => {
      const { repository, passTime } = await openTimed(t);
      await repository.users.create({ name: 'Ada' }, keyed('k'));
      await passTime(idempotencyTtlMs - marginMs);
      assert.equal((await repository.users.create({ name: 'Ada' }, keyed('k'))).replayed, true);
      await passTime(marginMs);
      const next = await repository.users.create({ name: 'Eve' }, keyed('k', 'other'));
      assert.deepEqual(next, { value: { id: 2, name: 'Eve', version: 1 }, replayed: false });
      await passTime(idempotencyTtlMs - marginMs);
      assert.equal((await repository.users.create({ name: 'Eve' }, keyed('k', 'other'))).replayed, true);
    });

    if (countKeys === undefined) return;

    test('deletes expired keys when new keys are stored', async (t) => {
      const { repository, passTime } = await openTimed(t);
      const create = (key: string) => repository.users.create({ name: 'Ada' }, keyed(key));
      for (let i = 0; i < 40; i += 1) await create(`old ${i}`);
      assert.equal(await countKeys(repository), 40);
      await passTime(idempotencyTtlMs);
      let created = 0;
      do {
        created += 1;
        assert.ok(created <= 1_000, 'none of many creations deletes the expired keys');
        await create(`new ${created}`);
      } while ((await countKeys(repository)) > created);
    });
  });
}
