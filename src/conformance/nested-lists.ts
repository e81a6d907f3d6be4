import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { maxId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import { addUsers, columnOf, type Fixture, walk } from './fixture.ts';
import type { NestedKind } from './kinds.ts';

/** Declares the tests of the lists of a kind of records that belong to users. */
export function testNestedLists(fixture: Fixture, nested: NestedKind): void {
  const { kind, fields, text, draft, draftOf, query, records } = nested;

  /** The ids that each query returns from records 1 to 4, with the texts b, a, b, A. */
  const orders: readonly (readonly [query: string, ids: readonly number[]])[] = [
    ['', [1, 2, 3, 4]],
    ['sort=-id', [4, 3, 2, 1]],
    [`sort=${text}`, [4, 2, 1, 3]],
    [`sort=-${text}`, [3, 1, 2, 4]],
    [`sort=${text},-id`, [4, 2, 3, 1]],
    [`sort=${text}&limit=2&page=2`, [1, 3]],
    ['limit=3&page=2', [4]],
    ['limit=4&page=2', []],
  ];
  const sorts = [...Object.keys(fields).flatMap((field) => [field, `-${field}`]), `${text},-id`];

  /** Creates records of user 1 with these texts, one after the other, and the same ones of user 2. */
  const addTexts = async (repository: Repository, texts: readonly string[]) => {
    await addUsers(repository, 'Ada', 'Bob');
    for (const one of texts) {
      for (const userId of [1, 2]) await records(repository, userId).create(draftOf(one));
    }
  };
  const walkNested = (repository: Repository, wanted: string) => {
    const parsed = query(wanted);
    return walk(parsed, async (start) => {
      const page = await records(repository, 1).list({ ...parsed, start });
      assert(page, 'user 1 does not exist');
      return page;
    });
  };

  describe(`lists of ${kind}`, () => {
    it(`returns undefined for the ${kind} of a user that does not exist`, async (t) => {
      const repository = await fixture.open(t);
      for (const id of [1, maxId]) {
        assert.equal(await records(repository, id).list(query()), undefined);
        assert.equal(await records(repository, id).list(query(`${text}=No`)), undefined);
        assert.equal(await records(repository, id).count({}), undefined);
        assert.equal(await records(repository, id).count({ [text]: 'No' }), undefined);
        assert.equal(await records(repository, id).create(draft), undefined);
      }
    });

    it(`distinguishes a user without ${kind} from no user`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada');
      assert.deepEqual(await records(repository, 1).list(query()), { items: [] });
      assert.equal(await records(repository, 1).count({}), 0);
    });

    it(`lists and counts the ${kind} of one user only`, async (t) => {
      const repository = await fixture.open(t);
      await addUsers(repository, 'Ada', 'Bob');
      for (const userId of [1, 2, 1, 1]) await records(repository, userId).create(draft);
      const page = await records(repository, 1).list(query());
      assert.deepEqual(columnOf(page?.items, 'id'), [1, 3, 4]);
      assert.equal(await records(repository, 1).count({}), 3);
      assert.equal(await records(repository, 2).count({}), 1);
    });

    const withFour = fixture.share(async (repository) => {
      await addUsers(repository, 'Ada');
      for (const one of ['b', 'a', 'b', 'A']) await records(repository, 1).create(draftOf(one));
    });
    for (const [wanted, ids] of orders) {
      it(`returns the ${kind} in order for ${wanted || 'an empty query'}`, async () => {
        const page = await records(await withFour(), 1).list(query(wanted));
        assert.deepEqual(columnOf(page?.items, 'id'), ids);
      });
    }

    const withSeven = fixture.share((repository) =>
      addTexts(repository, ['b', 'a', '\u{1f600}', 'b', '\uff21', 'A', 'b']),
    );
    for (const sort of sorts) {
      it(`returns all ${kind} by ${sort} across pages of any size`, async () => {
        const repository = await withSeven();
        const whole = await records(repository, 1).list(query(`sort=${sort}`));
        assert.equal(whole?.items.length, 7);
        for (const limit of [1, 2, 3, 7]) {
          const walked = await walkNested(repository, `sort=${sort}&limit=${limit}`);
          assert.deepEqual(walked, whole.items, `limit ${limit}`);
        }
      });
    }

    const withPrefixes = fixture.share((repository) =>
      addTexts(repository, ['Note', 'Notes', 'note', 'No%', 'Noon', 'Notes', 'N', 'Np']),
    );
    for (const sort of sorts) {
      it(`finds the ${kind} of a user whose ${text} starts with a prefix, by ${sort}, in pages of any size`, async () => {
        const repository = await withPrefixes();
        for (const [prefix, found] of [
          ['No', ['No%', 'Noon', 'Note', 'Notes', 'Notes']],
          ['Notes', ['Notes', 'Notes']],
          ['No%', ['No%']],
          ['No_', []],
          ['x', []],
        ] as const) {
          const wanted = `${text}=${encodeURIComponent(prefix)}&sort=${sort}`;
          const whole = await records(repository, 1).list(query(`${wanted}&limit=100`));
          assert(whole);
          assert.deepEqual(whole.items.map((item) => Reflect.get(item, text)).sort(), found);
          assert(whole.items.every(({ userId }) => userId === 1));
          assert.equal(await records(repository, 1).count({ [text]: prefix }), found.length);
          for (const limit of [1, 2]) {
            const walked = await walkNested(repository, `${wanted}&limit=${limit}`);
            assert.deepEqual(walked, whole.items, `${wanted}, limit ${limit}`);
          }
        }
      });
    }
  });
}
