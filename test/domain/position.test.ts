import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { userQuery } from '../../src/conformance/fixture.ts';
import { positionOf, toPage } from '../../src/domain/list-query.ts';
import { show } from './refuses.ts';

const sortOf = (text: string) => userQuery(`sort=${text}`).sort;

describe('positionOf', () => {
  for (const [sort, position] of [
    ['id', [5]],
    ['name', ['Ada', 5]],
    ['role', ['', 5]],
    ['-role,name,-id', ['', 'Ada', 5]],
  ] as const) {
    it(`sorted by ${sort} returns ${show(position)}, with the empty text for an absent role`, () => {
      assert.deepEqual(positionOf({ id: 5, name: 'Ada' }, sortOf(sort)), position);
    });
  }
});

describe('toPage', () => {
  const query = userQuery('limit=2');
  const rows = [{ id: 1 }, { id: 2 }, { id: 3 }];
  for (const [given, items, more] of [
    [0, 0, false],
    [1, 1, false],
    [2, 2, false],
    [3, 2, true],
  ] as const) {
    it(`returns ${items} of ${given} rows for a limit of 2, ${more ? 'with' : 'without'} a next page`, () => {
      const page = toPage(rows.slice(0, given), query);
      assert.deepEqual(page.items, rows.slice(0, items));
      assert.equal(page.next !== undefined, more);
      assert.equal('next' in page, more);
      if (more) assert.deepEqual(page.next, [2]);
    });
  }
});
