import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Repository } from '../domain/repository.ts';
import { addUsers, columnOf, type Fixture, walk } from './fixture.ts';
import type { TestedKind } from './kinds.ts';

/**
 * Sorted by code point. This order differs from the order of UTF-16, of every language, and of a database that ignores
 * spaces at the end.
 */
// biome-ignore format: one line for each text is longer to read.
const textsInOrder = [
  ' a', '10', '9', 'A', 'AA', 'Z', '_', 'a', 'a ', 'aa', 'a\u0301', 'z', '~', '\u00e9', '\u03a9', '\u4e00',
  '\ue000', '\uff21', '\uffff', '\u{1f600}', '\u{1f600}a', '\u{1f601}', '\u{10ffff}',
];

/** In neither ascending nor descending order. */
const textsShuffled = textsInOrder.map((_, i) => textsInOrder[(i * 5) % textsInOrder.length] ?? '');

/** Texts that are prefixes of each other, contain pattern characters, or are at limits of code points. */
// biome-ignore format: one line for each text is longer to read.
export const similarTexts = [
  'a', 'ab', 'abc', 'b', 'A', 'a%', 'a_', 'a*', 'a?', 'a\\', 'a%b', "a'", ' a', '  a', 'e\u0301', 'é',
  '\ud7ff', '\ud7ffz', '\ue000', '\uffff', '\uffffa', '\u{10000}', '\u{1f600}', '\u{1f600}a', '\u{1f601}',
  '\u{10ffff}', '\u{10ffff}\u{10ffff}', 'a\u{10ffff}', 'a\u{10ffff}\u{10ffff}b',
] as const;

const beginningsOf = (text: string) => Array.from(text, (_, i) => [...text].slice(0, i + 1).join(''));
export const beginnings = [...new Set(similarTexts.flatMap(beginningsOf))];

/** Declares the tests of the lists of a kind of records. */
export function testRecordLists(fixture: Fixture, tested: TestedKind): void {
  const { kind, fields, text, draftOf, query, records } = tested;
  const isNested = kind !== 'users';

  /** Pages of records 1 to 4, with the texts b, a, b, A: the ids, and whether there is a next page. */
  const pages: readonly (readonly [query: string, ids: readonly number[], more?: boolean])[] = [
    ['', [1, 2, 3, 4]],
    ['sort=-id', [4, 3, 2, 1]],
    [`sort=${text}`, [4, 2, 1, 3]],
    [`sort=-${text}`, [3, 1, 2, 4]],
    [`sort=${text},-id`, [4, 2, 3, 1]],
    [`sort=${text}&limit=2&page=2`, [1, 3]],
    ['sort=-id&limit=1&page=2', [3], true],
    ['limit=2', [1, 2], true],
    ['limit=3', [1, 2, 3], true],
    ['limit=3&page=2', [4]],
    ['limit=4', [1, 2, 3, 4]],
    ['limit=4&page=2', []],
    ['limit=1&page=4', [4]],
    ['limit=1&page=100000', []],
  ];
  const sorts = [...Object.keys(fields).flatMap((field) => [field, `-${field}`]), `${text},-id`];

  /** Creates records with these texts, one after the other; if they are nested, the same ones of another user. */
  const addTexts = async (repository: Repository, texts: readonly string[]) => {
    if (isNested) await addUsers(repository, 'Ada', 'Bob');
    for (const one of texts) {
      for (const userId of isNested ? [1, 2] : [1]) await records(repository, userId).create(draftOf(one));
    }
  };
  const listAll = async (repository: Repository, wanted: string) => {
    const page = await records(repository, 1).list(query(`${wanted}&limit=100`));
    return page?.items ?? assert.fail('user 1 does not exist');
  };
  const textsOf = (items: readonly object[]) => items.map((item) => Reflect.get(item, text));
  const checkPages = async (repository: Repository, wanted: string, limits: readonly number[]) => {
    const whole = await listAll(repository, wanted);
    for (const limit of limits) {
      const parsed = query(`${wanted}&limit=${limit}`);
      const walked = await walk(parsed, async (start) => {
        const page = await records(repository, 1).list({ ...parsed, start });
        return page ?? assert.fail('user 1 does not exist');
      });
      assert.deepEqual(walked, whole, `${wanted}, limit ${limit}`);
    }
  };

  describe(`lists of ${kind}`, () => {
    const withFour = fixture.share(async (repository) => {
      if (isNested) await addUsers(repository, 'Ada');
      for (const one of ['b', 'a', 'b', 'A']) await records(repository, 1).create(draftOf(one));
    });
    for (const [wanted, ids, more = false] of pages) {
      test(`returns the ${kind} in order for ${wanted || 'an empty query'}`, async () => {
        const page = await records(await withFour(), 1).list(query(wanted));
        assert.deepEqual(columnOf(page?.items, 'id'), ids);
        assert.equal(page?.next !== undefined, more, `next is ${page?.next}`);
      });
    }

    const withTexts = fixture.share((repository) => addTexts(repository, [...textsShuffled, 'a', 'a']));
    const inOrder = textsInOrder.flatMap((one) => (one === 'a' ? [one, one, one] : [one]));
    test(`orders ${kind} by code point`, async () => {
      const repository = await withTexts();
      assert.deepEqual(textsOf(await listAll(repository, `sort=${text}`)), inOrder);
      assert.deepEqual(textsOf(await listAll(repository, `sort=-${text}`)), inOrder.toReversed());
    });

    for (const sort of sorts) {
      test(`returns all ${kind} by ${sort} across pages of any size`, async () => {
        const repository = await withTexts();
        assert.equal((await listAll(repository, `sort=${sort}`)).length, inOrder.length);
        await checkPages(repository, `sort=${sort}`, [1, 2, 3, inOrder.length]);
      });
    }

    const withSimilar = fixture.share((repository) => addTexts(repository, similarTexts));
    test(`finds and counts the ${kind} whose ${text} starts with a prefix, for each prefix`, async () => {
      const repository = await withSimilar();
      for (const prefix of [...beginnings, 'x', '%', '_', '\u{10fffe}']) {
        const expected = similarTexts.filter((one) => one.startsWith(prefix)).sort();
        const filter = { [text]: prefix };
        const page = await records(repository, 1).list({ ...query('limit=100'), filter });
        assert.deepEqual(textsOf(page?.items ?? []).sort(), expected, JSON.stringify(prefix));
        assert.equal(await records(repository, 1).count(filter), expected.length, JSON.stringify(prefix));
      }
    });

    for (const sort of sorts) {
      test(`finds the ${kind} whose ${text} starts with a prefix by ${sort}, in pages of any size`, async () => {
        const repository = await withSimilar();
        for (const prefix of ['a', 'a%', '\u{1f600}']) {
          await checkPages(repository, `${text}=${encodeURIComponent(prefix)}&sort=${sort}`, [1, 2]);
        }
      });
    }
  });
}
