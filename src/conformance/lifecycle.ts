import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { CallOptions, Repository } from '../domain/repository.ts';
import { addUsers, type Fixture, postQuery, rejects, userQuery } from './fixture.ts';

type Operation = (repository: Repository, options?: CallOptions) => unknown;

const reads: Readonly<Record<string, Operation>> = {
  getUser: (repository, options) => repository.getUser(1, options),
  listUsers: (repository, options) => repository.listUsers(userQuery(), options),
  countUsers: (repository, options) => repository.countUsers({}, options),
  listPosts: (repository, options) => repository.listPosts(1, postQuery(), options),
  countPosts: (repository, options) => repository.countPosts(1, {}, options),
  getPost: (repository, options) => repository.getPost(1, 1, options),
  ping: (repository, options) => repository.ping(options),
};

const key = { key: 'key', fingerprint: 'fingerprint' };
const writes: Readonly<Record<string, Operation>> = {
  createUser: (repository) => repository.createUser({ name: 'Eve' }),
  'createUser with a key': (repository) => repository.createUser({ name: 'Eve' }, { idempotency: key }),
  updateUser: (repository) => repository.updateUser(1, { name: 'Eve' }),
  deleteUser: (repository) => repository.deleteUser(1),
  createPost: (repository) => repository.createPost(1, { title: 'title', body: '' }),
  updatePost: (repository) => repository.updatePost(1, 1, { title: 'other' }),
  deletePost: (repository) => repository.deletePost(1, 1),
  'createPost with a key': (repository) =>
    repository.createPost(1, { title: 'title', body: '' }, { idempotency: key }),
};

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

    const withAda = fixture.share((repository) => addUsers(repository, 'Ada'));
    for (const [name, call] of Object.entries(reads)) {
      it(`${name} fails if its signal is already aborted, as cancelled or deadline-exceeded`, async () => {
        const repository = await withAda();
        await rejects(call(repository, { signal: AbortSignal.abort() }), 'cancelled');
        await rejects(call(repository, { signal: AbortSignal.abort('gone') }), 'cancelled');
        const late = new DOMException('too late', 'TimeoutError');
        await rejects(call(repository, { signal: AbortSignal.abort(late) }), 'deadline-exceeded');
      });

      it(`${name} works with a signal that is not aborted`, async () => {
        const repository = await withAda();
        await call(repository, { signal: new AbortController().signal });
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
