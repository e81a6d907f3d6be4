import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CallOptions, Repository } from '../domain/repository.ts';
import { addUsers, type Fixture, keyed, rejects, userQuery } from './fixture.ts';
import { type NestedKind, nestedKinds } from './nested-kinds.ts';

type Operation = (repository: Repository, options?: CallOptions) => unknown;

const reads: Readonly<Record<string, Operation>> = {
  getUser: (repository, options) => repository.getUser(1, options),
  listUsers: (repository, options) => repository.listUsers(userQuery(), options),
  countUsers: (repository, options) => repository.countUsers({}, options),
  ping: (repository, options) => repository.ping(options),
  ...forNested(({ one, kind, ...nested }) => ({
    [`a list of ${kind}`]: (repository, options) => nested.list(repository, 1, nested.query(), options),
    [`a count of ${kind}`]: (repository, options) => nested.count(repository, 1, {}, options),
    [`a read of ${one}`]: (repository, options) => nested.get(repository, 1, 1, options),
  })),
};

const writes: Readonly<Record<string, Operation>> = {
  createUser: (repository) => repository.createUser({ name: 'Eve' }),
  'createUser with a key': (repository) => repository.createUser({ name: 'Eve' }, keyed('key')),
  updateUser: (repository) => repository.updateUser(1, { name: 'Eve' }),
  deleteUser: (repository) => repository.deleteUser(1),
  ...forNested(({ one, ...nested }) => ({
    [`a creation of ${one}`]: (repository) => nested.create(repository, 1, nested.draft),
    [`a creation of ${one} with a key`]: (repository) =>
      nested.create(repository, 1, nested.draft, keyed('key')),
    [`an update of ${one}`]: (repository) => nested.update(repository, 1, 1, nested.patches[0]),
    [`a deletion of ${one}`]: (repository) => nested.delete(repository, 1, 1),
  })),
};

/** The operations of all kinds whose records belong to users. */
function forNested(
  operationsOf: (nested: NestedKind) => Record<string, Operation>,
): Record<string, Operation> {
  return Object.assign({}, ...nestedKinds.map(operationsOf));
}

export function testLifecycle(fixture: Fixture): void {
  describe('lifecycle', () => {
    it('answers a ping', async (t) => {
      const repository = await fixture.open(t);
      assert.equal(await repository.ping(), undefined);
    });

    const closed = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada');
      await repository.close();
    });
    for (const [name, call] of Object.entries({ ...reads, ...writes })) {
      it(`${name} fails as unavailable on a closed repository`, async () => {
        await rejects(call(await closed()), 'unavailable');
      });
    }

    const withAda = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada');
      for (const { create, draft } of nestedKinds) await create(repository, 1, draft);
    });
    for (const [name, call] of Object.entries(reads)) {
      it(`${name} fails if its signal is already aborted, as cancelled or deadline-exceeded`, async () => {
        const repository = await withAda();
        await rejects(call(repository, { signal: AbortSignal.abort() }), 'cancelled');
        await rejects(call(repository, { signal: AbortSignal.abort('gone') }), 'cancelled');
        const late = new DOMException('too late', 'TimeoutError');
        await rejects(call(repository, { signal: AbortSignal.abort(late) }), 'deadline-exceeded');
      });

      it(`${name} has the same result with a signal that is not aborted as without one`, async () => {
        const repository = await withAda();
        const { signal } = new AbortController();
        assert.deepEqual(await call(repository, { signal }), await call(repository));
      });
    }

    it('may be closed several times', async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      await Promise.all([repository.close(), repository.close()]);
      await repository.close();
      await rejects(repository.getUser(1), 'unavailable');
    });

    it('may be closed before its first use', async (t) => {
      const repository = await fixture.open(t);
      await repository.close();
      await rejects(repository.ping(), 'unavailable');
    });

    it('finishes running writes before it closes', async (t) => {
      const repository = await fixture.open(t);
      let answered = 0;
      const writing = Array.from({ length: 20 }, async (_, i) => {
        await repository.createUser({ name: `user ${i}` });
        answered += 1;
      });
      await repository.close();
      assert.equal(answered, 20);
      await Promise.all(writing);
    });

    fixture.itRestarts(
      'contains after a restart every write that it acknowledged while closing',
      async (t) => {
        const repository = await fixture.open(t);
        const writing = Array.from({ length: 20 }, (_, i) => repository.createUser({ name: `user ${i}` }));
        const again = await fixture.restart(t, repository);
        for (const { value } of await Promise.all(writing))
          assert.deepEqual(await again.getUser(value.id), value);
      },
    );
  });
}
