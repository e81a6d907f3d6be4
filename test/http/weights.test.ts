import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseWeights } from '../../src/http/weights.ts';

const cases: readonly [header: string, want: readonly (readonly [string, number])[]][] = [
  ['a', [['a', 1]]],
  ['A;Q=0.5', [['a', 0.5]]],
  [
    'a , b ; q=0 ,c;q=1.0',
    [
      ['a', 1],
      ['b', 0],
      ['c', 1],
    ],
  ],
  ['a/b;level=1;q=0.3', [['a/b', 0.3]]],
  ['a;q=x', [['a', Number.NaN]]],
  ['a;q=', [['a', 0]]],
  ['*', [['*', 1]]],
  ['a, a;q=0', [['a', 0]]],
  ['', [['', 1]]],
];

for (const [header, want] of cases) {
  test(`${JSON.stringify(header)} weighs ${JSON.stringify(want)}`, () => {
    assert.deepEqual([...parseWeights(header)], want);
  });
}
