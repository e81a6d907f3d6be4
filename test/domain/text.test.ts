import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { afterPrefix, compareText, parseText } from '../../src/domain/text.ts';
import { refuses, show } from './refuses.ts';

const line = { maxLength: 5, notBlank: true, multiline: false };
const prose = { maxLength: 5, notBlank: false, multiline: true };

describe('parseText', () => {
  for (const [value, rule] of [
    ['a', line],
    ['Ada L', line],
    [' a ', line],
    ['😀😀😀😀😀', line],
    ['\u{10ffff}', line],
    ['e\u0301', line],
    ['\u00a0a', line],
    ['\u200b', line],
    ['\ufeffa', line],
    ['\ufffe', line],
    ['<b>', line],
    ['', prose],
    ['   ', prose],
    ['\t\n', prose],
    ['a\n\tb', prose],
    ['😀\n😀\n😀', prose],
  ] as const) {
    it(`accepts ${show(value)}${rule.multiline ? ' as text of several lines' : ''}`, () => {
      assert.equal(parseText('field', value, rule), value);
    });
  }

  for (const [value, rule] of [
    [undefined, line],
    [null, line],
    [1, line],
    [true, line],
    [['a'], line],
    [{ toString: () => 'a' }, line],
    [new String('a'), line],
    ['', line],
    [' ', line],
    ['\u00a0\u2003\u3000', line],
    ['abcdef', line],
    ['😀😀😀😀😀😀', line],
    ['e\u0301e\u0301e\u0301', line],
    ['a\u0000', line],
    ['\u0001', line],
    ['\t', line],
    ['a\tb', line],
    ['a\nb', line],
    ['a\r', line],
    ['\u001b[2J', line],
    ['\u007f', line],
    ['\u0080', line],
    ['\u009f', line],
    ['\ud800', line],
    ['\udc00a', line],
    ['\ude00\ud83d', line],
    ['abcdef', prose],
    ['a\u0000', prose],
    ['a\r\nb', prose],
    ['\u000b', prose],
    ['\u000c', prose],
    ['\u009b', prose],
    ['\udfff', prose],
  ] as const) {
    it(`rejects ${show(value)}${rule.multiline ? ' as text of several lines' : ''}`, () => {
      refuses(() => parseText('field', value, rule), 'field');
    });
  }

  it('names a rejected control character in its message', () => {
    assert.throws(() => parseText('field', 'a\u001bb', line), /U\+001B/);
  });
});

describe('compareText', () => {
  const ordered = [
    '',
    ' ',
    '0',
    '10',
    '9',
    'A',
    'AA',
    'B',
    'a',
    'a\u0000',
    'aa',
    'a\u0301',
    'b',
    '\u007f',
    '\u0080',
    'é',
    'ééé',
    '\u0fff',
    '\ud7ff',
    '\ue000',
    '\uff21',
    '\uffff',
    '\u{10000}',
    '\u{103ff}',
    '\u{10400}',
    '\u{1f600}',
    '\u{1f600}a',
    '\u{1f600}\uff21',
    '\u{1f600}\u{1f600}',
    '\u{1f601}',
    '\u{10ffff}',
  ];

  it('sorts every pair of texts by code point, in both directions', () => {
    for (const [i, a] of ordered.entries()) {
      for (const [j, b] of ordered.entries()) {
        assert.equal(Math.sign(compareText(a, b)), Math.sign(i - j), `${show(a)} and ${show(b)}`);
      }
    }
  });

  it('sorts like the bytes of UTF-8', () => {
    for (const a of ordered) {
      for (const b of ordered) {
        const bytes = Buffer.compare(Buffer.from(a), Buffer.from(b));
        assert.equal(Math.sign(compareText(a, b)), bytes, `${show(a)} and ${show(b)}`);
      }
    }
  });
});

describe('afterPrefix', () => {
  for (const [prefix, after] of [
    ['a', 'b'],
    ['ab', 'ac'],
    ['a\u00ff', 'a\u0100'],
    ['\ud7ff', '\ue000'],
    ['\uffff', '\u{10000}'],
    ['\u{1f600}', '\u{1f601}'],
    ['\u{10ffff}', undefined],
    ['\u{10ffff}\u{10ffff}', undefined],
    ['a\u{10ffff}', 'b'],
    ['\ud7ff\u{10ffff}\u{10ffff}', '\ue000'],
  ] as const) {
    it(`returns ${after === undefined ? 'no text' : show(after)} for ${show(prefix)}`, () => {
      assert.equal(afterPrefix(prefix), after);
      assert.ok(after?.isWellFormed() !== false);
    });
  }
});
