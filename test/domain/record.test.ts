import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseRecord, quote } from '../../src/domain/record.ts';
import { refuses, show } from './refuses.ts';

describe('parseRecord', () => {
  for (const value of [{}, { a: 1 }, { b: null, a: undefined }]) {
    it(`accepts ${show(value)}`, () => assert.deepEqual(parseRecord('it', value, ['a', 'b']), value));
  }
  for (const value of [undefined, null, 0, '', 'text', true, [], [1], () => 1, Symbol('a'), 1n]) {
    it(`rejects ${show(value)}, which is not an object`, () =>
      refuses(() => parseRecord('it', value, ['a']), 'it'));
  }
  for (const [value, culprit] of [
    [{ c: 1 }, '"c"'],
    [{ a: 1, A: 1 }, '"A"'],
    [{ a: 1, 'a ': 1 }, '"a "'],
    [{ length: 1 }, '"length"'],
    [{ hasOwnProperty: 1 }, '"hasOwnProperty"'],
    [{ ['x'.repeat(100)]: 1 }, `"${'x'.repeat(60)}…"`],
  ] as const) {
    it(`rejects the field ${culprit}`, () => refuses(() => parseRecord('it', value, ['a', 'b']), culprit));
  }
});

describe('quote', () => {
  for (const [text, quoted] of [
    ['', '""'],
    ['a', '"a"'],
    ['a"b\\c', '"a\\"b\\\\c"'],
    ['a\nb\u0000', '"a\\nb\\u0000"'],
    ['\ud800', '"\\ud800"'],
    ['x'.repeat(60), `"${'x'.repeat(60)}"`],
    ['x'.repeat(61), `"${'x'.repeat(60)}…"`],
    [`${'x'.repeat(58)}😀x`, `"${'x'.repeat(58)}😀…"`],
    [`${'x'.repeat(59)}😀`, `"${'x'.repeat(59)}…"`],
  ] as const) {
    it(`of ${show(text)} is ${show(quoted)}`, () => assert.equal(quote(text), quoted));
  }
});
