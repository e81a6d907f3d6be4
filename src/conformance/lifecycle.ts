import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CallOptions, Repository } from '../domain/repository.ts';
import { addUsers, type Fixture, keyed, rejects } from './fixture.ts';
import { type TestedKind, testedKinds } from './kinds.ts';

type Operation = (repository: Repository, options?: CallOptions) => unknown;

const reads: Readonly<Record<string, Operation>> = {
  ping: (repository, options) => repository.ping(options),
  ...forEachKind(({ one, kind, ...tested }) => ({
    [`a list of ${kind}`]: (repository, options) =>
      tested.records(repository, 1).list(tested.query(), options),
    [`a count of ${kind}`]: (repository, options) => tested.records(repository, 1).count({}, options),
    [`a read of ${one}`]: (repository, options) => tested.records(repository, 1).get(1, options),
  })),
};

const writes: Readonly<Record<string, Operation>> = forEachKind(({ one, ...tested }) => ({
  [`a creation of ${one}`]: (repository) => tested.records(repository, 1).create(tested.draft),
  [`a creation of ${one} with a key`]: (repository) =>
    tested.records(repository, 1).create(tested.draft, keyed('key')),
  [`an update of ${one}`]: (repository) => tested.records(repository, 1).update(1, tested.patches[0]),
  [`a deletion of ${one}`]: (repository) => tested.records(repository, 1).delete(1),
}));

function forEachKind(
  operationsOf: (tested: TestedKind) => Record<string, Operation>,
): Record<string, Operation> {
  return Object.assign({}, ...testedKinds.map(operationsOf));
}

export function testLifecycle(fixture: Fixture): void {
  const { it, itRestarts } = fixture;
  describe('lifecycle', () => {
    const closed = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada');
      await repository.close();
    });
    for (const [name, call] of Object.entries({ ...reads, ...writes })) {
      test(`${name} fails as unavailable on a closed repository`, async () => {
        await rejects(call(await closed()), 'unavailable');
      });
    }

    const withAda = fixture.share(async (repository) => {
      for (const { records, draft } of testedKinds) await records(repository, 1).create(draft);
    });
    for (const [name, call] of Object.entries(reads)) {
      test(`${name} fails if its signal is already aborted, as cancelled or deadline-exceeded`, async () => {
        const repository = await withAda();
        await rejects(call(repository, { signal: AbortSignal.abort() }), 'cancelled');
        await rejects(call(repository, { signal: AbortSignal.abort('gone') }), 'cancelled');
        const late = new DOMException('too late', 'TimeoutError');
        await rejects(call(repository, { signal: AbortSignal.abort(late) }), 'deadline-exceeded');
      });

      test(`${name} has the same result with a signal that is not aborted as without one`, async () => {
        const repository = await withAda();
        const { signal } = new AbortController();
        assert.deepEqual(await call(repository, { signal }), await call(repository));
      });

      test(`${name} has its result or fails as cancelled if its signal aborts while it runs`, async () => {
        const repository = await withAda();
        const controller = new AbortController();
        const running = call(repository, { signal: controller.signal });
        controller.abort();
        const [ended] = await Promise.allSettled([running]);
        if (ended.status === 'fulfilled') assert.deepEqual(ended.value, await call(repository));
        else await rejects(running, 'cancelled');
      });
    }

    it('may be closed several times', async (repository) => {
      await addUsers(repository, 'Ada');
      await Promise.all([repository.close(), repository.close()]);
      await repository.close();
      await rejects(repository.users.get(1), 'unavailable');
    });

    it('may be closed before its first use', async (repository) => {
      await repository.close();
      await rejects(repository.ping(), 'unavailable');
    });

    it('finishes running writes before it closes', async (repository) => {
      let answered = 0;
      const writing = Array.from({ length: 20 }, async (_, i) => {
        await repository.users.create({ name: `user ${i}` });
        answered += 1;
      });
      await repository.close();
      // A repository that wraps another one may pass on its results some microtasks later.
      await nextTurn();
      assert.equal(answered, 20);
      await Promise.all(writing);
    });

    itRestarts('has after a restart every write acknowledged while closing', async (repository, t) => {
      const writing = Array.from({ length: 20 }, (_, i) => repository.users.create({ name: `user ${i}` }));
      const again = await fixture.restart(t, repository);
      for (const { value } of await Promise.all(writing))
        assert.deepEqual(await again.users.get(value.id), value);
    });
  });
}
