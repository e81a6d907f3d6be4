import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatSort, type Sort } from '../domain/list-query.ts';
import type { Repository } from '../domain/repository.ts';
import { compareText } from '../domain/text.ts';
import type { User, UserField } from '../domain/user.ts';
import { addUsers, columnOf, type Fixture, maxWalked, userQuery, walkUsers } from './fixture.ts';
import { Random } from './random.ts';

// biome-ignore format: one line for each text is longer to read.
export const userSorts = [
  'id', '-id', 'name', '-name', 'role', '-role', 'name,-id', '-name,id', 'role,-id', 'role,name', 'role,-name',
  '-role,name', '-role,-name', '-role,-name,-id', 'name,role', 'name,-role', '-name,role',
] as const;

/** With equal names and roles, and with roles whose order differs in most languages, which ignore the punctuation. */
// biome-ignore format: one line for each text is longer to read.
const manyUsers = [
  'b:x', 'a', 'b', 'a:x_', 'a:x', 'b:x', 'c:x', 'a', '\u{1f600}:x', 'b:xx', 'a:x-', 'c:x0', 'a:x-b', 'b:x_a',
] as const;

export function testPositions(fixture: Fixture): void {
  const { it } = fixture;
  describe('positions in a list of users', () => {
    const withMany = fixture.share((repository) => addUsers(repository, ...manyUsers));
    for (const sort of userSorts) {
      test(`lead through the whole list by ${sort} in order, with any page size and role`, async () => {
        const repository = await withMany();
        const { items: all } = await repository.users.list(userQuery('limit=100'));
        for (const role of [undefined, 'x', 'y']) {
          const text = `sort=${sort}${role === undefined ? '' : `&role=${role}`}`;
          const expected = all
            .filter((user) => role === undefined || user.role === role)
            .sort((a, b) => compareUsers(userQuery(text).sort, a, b));
          for (const limit of [1, 2, 3, manyUsers.length - 1, manyUsers.length]) {
            const walked = await walkUsers(repository, `${text}&limit=${limit}`);
            assert.deepEqual(walked, expected, `${text}, limit ${limit}`);
          }
        }
      });
    }

    it('continue a list after any values, including values that no row has', async (repository) => {
      await addUsers(repository, 'b', 'd', 'f');
      for (const [name, id, ids] of [
        ['a', 9, [1, 2, 3]],
        ['b', 1, [2, 3]],
        ['c', 2, [2, 3]],
        ['z', 1, []],
      ] as const) {
        const { items } = await repository.users.list({
          ...userQuery('sort=name'),
          start: { after: [name, id] },
        });
        assert.deepEqual(columnOf(items, 'id'), ids, `after ${name}, ${id}`);
      }
    });

    const seed = fixture.traits.seed ?? Math.floor(Math.random() * 2 ** 32);
    test(`return each unchanged row exactly once and in order during random writes (seed ${seed})`, async (t) => {
      t.diagnostic(`seed ${seed}`);
      const random = new Random(seed);
      const repository = await fixture.open(t);
      for (let i = 0; i < 40; i += 1) await repository.users.create(randomDraft(random));
      for (let walk = 0; walk < 25; walk += 1)
        await walkAmongChanges(repository, random, `seed ${seed}, walk ${walk}`);
    });
  });
}

const names = ['a', 'b', 'B', 'é', '\uff21', '\u{1f600}'] as const;
const roles = [undefined, 'x', 'y', 'y-z'] as const;
const fields = ['id', 'name', 'role'] as const;

function randomDraft(random: Random): { name: string; role?: string } {
  const name = random.pick(names);
  const role = random.pick(roles);
  return role === undefined ? { name } : { name, role };
}

function randomQuery(random: Random): string {
  const keys = new Set(Array.from({ length: 1 + random.below(3) }, () => random.pick(fields)));
  const sort = [...keys].map((field) => (random.below(2) === 0 ? field : `-${field}`)).join(',');
  const role = random.pick(roles);
  return `sort=${sort}&limit=${1 + random.below(7)}${role === undefined ? '' : `&role=${role}`}`;
}

/** Reads a list page by page, with a random write between two pages. */
async function walkAmongChanges(repository: Repository, random: Random, run: string): Promise<void> {
  const text = randomQuery(random);
  const query = userQuery(text);
  const { items: all } = await repository.users.list({ ...userQuery(), limit: 10_000 });
  const stayed = new Map(
    all.filter(({ role }) => !query.filter.role || role === query.filter.role).map((user) => [user.id, user]),
  );
  const seen: User[] = [];
  for (let start = query.start; ; ) {
    const { items, next } = await repository.users.list({ ...query, start });
    seen.push(...items);
    assert(seen.length <= maxWalked, `a next page leads back: ${run}, ${text}`);
    if (next === undefined) break;
    start = { after: next };
    const id = all[random.below(all.length)]?.id ?? 1;
    const change = random.below(3);
    if (change === 0) await repository.users.create(randomDraft(random));
    else stayed.delete(id);
    if (change === 1) await repository.users.delete(id);
    if (change === 2) await repository.users.update(id, randomDraft(random));
  }
  const where = `${run}, ${text}`;
  for (const [i, user] of seen.entries()) {
    const before = seen[i - 1];
    const order = before === undefined ? -1 : compareUsers(query.sort, before, user);
    assert(
      order < 0,
      `${JSON.stringify(before)} must not come before ${JSON.stringify(user)} by ${formatSort(query.sort)}: ${where}`,
    );
  }
  const seenIds = seen.map((user) => user.id);
  for (const [id, user] of stayed) {
    const times = seenIds.filter((seenId) => seenId === id).length;
    assert.equal(times, 1, `${JSON.stringify(user)} was seen ${times} times: ${where}`);
  }
}

export function compareUsers(sort: Sort<UserField>, a: User, b: User): number {
  for (const { field, descending } of sort) {
    const order = field === 'id' ? a.id - b.id : compareText(a[field] ?? '', b[field] ?? '');
    if (order !== 0) return descending ? -order : order;
  }
  return 0;
}
