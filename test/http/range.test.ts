import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ByteRange, parseRange } from '../../src/http/range.ts';

const range = (start: number, end: number): ByteRange => ({ start, end });
const nines = '9'.repeat(400);

const cases: readonly [header: string | undefined, size: number, want: ReturnType<typeof parseRange>][] = [
  [undefined, 10, undefined],
  ['bytes=0-0', 10, range(0, 0)],
  ['bytes=0-9', 10, range(0, 9)],
  ['bytes=2-4', 10, range(2, 4)],
  ['bytes=5-', 10, range(5, 9)],
  ['bytes=5-99', 10, range(5, 9)],
  [`bytes=5-${nines}`, 10, range(5, 9)],
  ['bytes=-3', 10, range(7, 9)],
  ['bytes=-10', 10, range(0, 9)],
  ['bytes=-99', 10, range(0, 9)],
  [`bytes=-${nines}`, 10, range(0, 9)],
  ['BYTES=0-0', 10, range(0, 0)],
  ['bytes= 0-0 ', 10, range(0, 0)],
  ['bytes=000-001', 10, range(0, 1)],
  ['bytes=10-', 10, 'unsatisfiable'],
  ['bytes=10-20', 10, 'unsatisfiable'],
  [`bytes=${nines}-`, 10, 'unsatisfiable'],
  ['bytes=-0', 10, 'unsatisfiable'],
  ['bytes=0-', 0, 'unsatisfiable'],
  ['bytes=-1', 0, 'unsatisfiable'],
  ['bytes=4-2', 10, undefined],
  ['bytes=0-1,3-4', 10, undefined],
  ['bytes=0-1,', 10, undefined],
  ['bytes=', 10, undefined],
  ['bytes=-', 10, undefined],
  ['bytes=a-b', 10, undefined],
  ['bytes=0x0-1', 10, undefined],
  ['bytes=+0-1', 10, undefined],
  ['bytes=--1', 10, undefined],
  ['bytes=1.5-2', 10, undefined],
  ['bytes 0-1', 10, undefined],
  ['items=0-1', 10, undefined],
  ['', 10, undefined],
];

for (const [header, size, want] of cases) {
  const shown = header?.replace(nines, '99…99');
  test(`${shown} of ${size} bytes is ${JSON.stringify(want) ?? 'no range'}`, () => {
    assert.deepEqual(parseRange(header, size), want);
  });
}
