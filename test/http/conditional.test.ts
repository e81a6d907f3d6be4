import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type EntityTags,
  evaluateConditions,
  isNotModified,
  isSameVersion,
  parseEntityTags,
} from '../../src/http/conditional.ts';

const tags = (strong: readonly string[], weak: readonly string[] = []): EntityTags => ({ strong, weak });

const parsed: readonly [header: string, want: EntityTags | undefined][] = [
  ['*', '*'],
  [' * ', '*'],
  ['"a"', tags(['a'])],
  ['W/"a"', tags([], ['a'])],
  ['"a", W/"b" ,"c"', tags(['a', 'c'], ['b'])],
  ['""', tags([''])],
  ['"a,b"', tags(['a,b'])],
  [',"a",,', tags(['a'])],
  ['"\xe9!#~"', tags(['\xe9!#~'])],
  ['', undefined],
  [',', undefined],
  ['a', undefined],
  ['"a', undefined],
  ['a"', undefined],
  ['"a" "b"', undefined],
  ['"a"b', undefined],
  ['"a b"', undefined],
  ['"a\tb"', undefined],
  ['w/"a"', undefined],
  ['W/ "a"', undefined],
  ['*, "a"', undefined],
  ["'a'", undefined],
];

for (const [header, want] of parsed) {
  test(`${JSON.stringify(header)} is ${want === undefined ? 'malformed' : JSON.stringify(want)}`, () => {
    assert.deepEqual(parseEntityTags(header), want);
  });
}

const known: readonly [ifNoneMatch: string | undefined, want: boolean][] = [
  [undefined, false],
  ['"a"', true],
  ['W/"a"', true],
  ['"b"', false],
  ['"b", "a"', true],
  ['*', true],
  ['a', false],
  ['', false],
];

for (const [ifNoneMatch, want] of known) {
  test(`If-None-Match ${ifNoneMatch} is ${want ? 'met' : 'not met'} by the tag a`, () => {
    assert.equal(isNotModified(ifNoneMatch, 'a'), want);
  });
}

const modified = new Date('2020-01-02T03:04:05.678Z');
const validators = { tag: 'a', modified };
const at = 'Thu, 02 Jan 2020 03:04:05 GMT';
const before = 'Thu, 02 Jan 2020 03:04:04 GMT';
const after = 'Thu, 02 Jan 2020 03:04:06 GMT';

type Outcome = ReturnType<typeof evaluateConditions>;
const conditions: readonly [behaviour: string, headers: Readonly<Record<string, string>>, want: Outcome][] = [
  ['no condition', {}, 'proceed'],
  ['If-Match with the tag', { 'if-match': '"a"' }, 'proceed'],
  ['If-Match with a star', { 'if-match': '*' }, 'proceed'],
  ['If-Match with another tag', { 'if-match': '"b"' }, 'failed'],
  ['If-Match with the tag weak', { 'if-match': 'W/"a"' }, 'failed'],
  ['If-Match malformed', { 'if-match': 'a' }, 'failed'],
  ['If-Unmodified-Since the date', { 'if-unmodified-since': at }, 'proceed'],
  ['If-Unmodified-Since later', { 'if-unmodified-since': after }, 'proceed'],
  ['If-Unmodified-Since earlier', { 'if-unmodified-since': before }, 'failed'],
  ['If-Unmodified-Since no date', { 'if-unmodified-since': 'yesterday' }, 'proceed'],
  ['If-Match before If-Unmodified-Since', { 'if-match': '"a"', 'if-unmodified-since': before }, 'proceed'],
  ['If-None-Match with the tag', { 'if-none-match': '"a"' }, 'not-modified'],
  ['If-None-Match with the tag weak', { 'if-none-match': 'W/"a"' }, 'not-modified'],
  ['If-None-Match with another tag', { 'if-none-match': '"b"' }, 'proceed'],
  ['If-None-Match without quotes', { 'if-none-match': 'a' }, 'proceed'],
  ['If-Modified-Since the date', { 'if-modified-since': at }, 'not-modified'],
  ['If-Modified-Since later', { 'if-modified-since': after }, 'not-modified'],
  ['If-Modified-Since earlier', { 'if-modified-since': before }, 'proceed'],
  ['If-Modified-Since in the future', { 'if-modified-since': 'Thu, 01 Jan 2099 00:00:00 GMT' }, 'proceed'],
  [
    'If-Modified-Since in RFC 850',
    { 'if-modified-since': 'Thursday, 02-Jan-20 03:04:05 GMT' },
    'not-modified',
  ],
  ['If-Modified-Since in asctime', { 'if-modified-since': 'Thu Jan  2 03:04:05 2020' }, 'not-modified'],
  ['If-Modified-Since in asctime, earlier', { 'if-modified-since': 'Thu Jan  2 03:04:04 2020' }, 'proceed'],
  ['If-Modified-Since in ISO 8601', { 'if-modified-since': '2020-01-02T03:04:05Z' }, 'proceed'],
  ['If-Modified-Since empty', { 'if-modified-since': '' }, 'proceed'],
  ['If-None-Match before If-Modified-Since', { 'if-none-match': '"b"', 'if-modified-since': at }, 'proceed'],
  ['If-Match before If-None-Match', { 'if-match': '"b"', 'if-none-match': '"a"' }, 'failed'],
  ['both met', { 'if-match': '"a"', 'if-none-match': '"a"' }, 'not-modified'],
];

for (const [behaviour, headers, want] of conditions) {
  test(`${behaviour}: ${want}`, () => {
    assert.equal(evaluateConditions({ header: (name) => headers[name] }, validators), want);
  });
}

const versions: readonly [ifRange: string | undefined, want: boolean][] = [
  [undefined, true],
  ['"a"', true],
  [at, true],
  ['W/"a"', false],
  ['"b"', false],
  ['a', false],
  ['*', false],
  [before, false],
  [after, false],
];

for (const [ifRange, want] of versions) {
  test(`If-Range ${ifRange} is of ${want ? 'this' : 'another'} version`, () => {
    assert.equal(isSameVersion(ifRange, validators), want);
  });
}
