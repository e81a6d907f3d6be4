import assert from 'node:assert/strict';
import { it } from 'node:test';
import { userQuery } from '../../../src/conformance/fixture.ts';
import { postQuery } from '../../../src/conformance/kinds.ts';
import { postgresReads } from '../../../src/storage/postgres/reads.ts';

it('lists of all limits, pages and positions use a few statements, so that all of them stay prepared', async () => {
  const names = new Set<string | undefined>();
  const pool: Parameters<typeof postgresReads>[0] = {
    async read({ name }) {
      names.add(name);
      return [];
    },
  };
  const { users, posts } = postgresReads(pool, { ping: async () => undefined }).operations;
  const sorts = ['id', '-id', 'name', '-name', 'role', '-role', 'role,name', 'role,-name', '-role,name'];
  for (const sort of sorts) {
    for (const filter of ['', '&role=guest', '&role=admin']) {
      for (const limit of [1, 2, 19, 20, 99, 100]) {
        const query = userQuery(`sort=${sort}${filter}&limit=${limit}`);
        const after = query.sort.map(({ field }) => (field === 'id' ? limit : `value ${limit}`));
        for (const start of [{ offset: 0 }, { offset: limit }, { after }]) {
          await users.list({ ...query, start });
          await posts.list({ ...postQuery(`limit=${limit}`), filter: { userId: limit } as object, start });
        }
      }
    }
  }
  assert.ok(!names.has(undefined), 'each statement must have a name');
  assert.ok(names.size <= 50, `${names.size} statements`);
});

it('a list after a text with U+0000, which only other databases have, is invalid', async () => {
  const pool: Parameters<typeof postgresReads>[0] = { read: async () => assert.fail('it was sent') };
  const { users } = postgresReads(pool, { ping: async () => undefined }).operations;
  const list = users.list({ ...userQuery('sort=name'), start: { after: ['a\0b', 1] } });
  await assert.rejects(async () => list, { kind: 'invalid', message: 'a text must not contain U+0000' });
});
