import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkContentType } from '../../src/http/head.ts';

const parsed: readonly [text: string, essence: string][] = [
  ['application/json', 'application/json'],
  ['Application/JSON', 'application/json'],
  ['application/json; charset=utf-8', 'application/json'],
  ['application/json;charset=utf-8', 'application/json'],
  ['application/json ; Charset="UTF-8"', 'application/json'],
  ['application/json;', 'application/json'],
  ['application/json;;a=b;', 'application/json'],
  ['a/b; c="d;e=f"', 'a/b'],
  ['a/b; c="d\\"; charset=x"', 'a/b'],
  ['a/b; c=""', 'a/b'],
  ['a/b; __proto__=c', 'a/b'],
  ["!#$%&'*+-.^_`|~/x", "!#$%&'*+-.^_`|~/x"],
];

for (const [text, essence] of parsed) {
  test(`${text} is a media type`, () => checkContentType(text, [essence], 'accept'));
}

const refused = [
  '',
  ' ',
  'json',
  '/json',
  'application/',
  'application / json',
  'application/json, text/html',
  'application/json charset=utf-8',
  'application/json; charset',
  'application/json; charset=',
  'application/json; charset =utf-8',
  'application/json; charset= utf-8',
  'application/json; charset="utf-8',
  'application/json; charset="utf-8"x',
  'application/json; =utf-8',
  'application/j(son',
  'application/jsön',
];

for (const text of refused) {
  test(`${JSON.stringify(text)} is not a media type`, () => {
    assert.throws(() => checkContentType(text, ['application/json'], 'accept'), { status: 415 });
  });
}

test('a long malformed media type is rejected quickly', () => {
  const started = performance.now();
  for (const text of [`a/b${'; a="\\"'.repeat(20_000)}`, `a/b; a="${'\\a'.repeat(50_000)}`])
    assert.throws(() => checkContentType(text, ['a/b'], 'accept'), { status: 415 });
  assert.ok(performance.now() - started < 5_000);
});

const taken: readonly [contentType: string | undefined, types: readonly string[], ok: boolean][] = [
  ['application/json', ['application/json'], true],
  ['APPLICATION/json; CHARSET=UTF-8', ['application/json'], true],
  ['application/json; version=1', ['application/json'], true],
  ['application/merge-patch+json', ['application/merge-patch+json', 'application/json'], true],
  ['application/json', ['application/merge-patch+json', 'application/json'], true],
  ['application/json; charset=latin1', ['application/json'], false],
  ['application/json; charset=utf-16', ['application/json'], false],
  ['application/merge-patch+json', ['application/json'], false],
  ['application/problem+json', ['application/json'], false],
  ['text/json', ['application/json'], false],
  ['*/*', ['application/json'], false],
  ['application/json, application/json', ['application/json'], false],
  ['', ['application/json'], false],
  [undefined, ['application/json'], false],
];

for (const [contentType, types, ok] of taken) {
  test(`Content-Type ${contentType} is ${ok ? 'accepted' : 'rejected'} for a route that accepts ${types.join(' or ')}`, () => {
    const check = () => checkContentType(contentType, types, 'accept-post');
    if (ok) assert.doesNotThrow(check);
    else assert.throws(check, { status: 415, headers: { 'accept-post': types.join(', ') } });
  });
}
