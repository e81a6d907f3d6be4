import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  chooseEncoding,
  hasVersion,
  isNotModified,
  parseEntityTags,
  parseWeights,
  requestedRange,
} from '../../src/http/conditional.ts';

const parsed: readonly [header: string, want: '*' | readonly string[] | undefined][] = [
  ['*', '*'],
  [' * ', '*'],
  ['"a"', ['"a"']],
  ['W/"a"', ['W/"a"']],
  ['"a", W/"b" ,"c"', ['"a"', 'W/"b"', '"c"']],
  ['""', ['""']],
  ['"a,b"', ['"a,b"']],
  [',"a",,', ['"a"']],
  ['"\xe9!#~"', ['"\xe9!#~"']],
  [Array.from({ length: 100 }, (_, i) => `"${i}"`).join(), Array.from({ length: 100 }, (_, i) => `"${i}"`)],
  [Array.from({ length: 101 }, (_, i) => `"${i}"`).join(), undefined],
  [`${','.repeat(15_000)}"a"`, undefined],
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
  test(`the entity tags ${JSON.stringify(header.slice(0, 50))} parse as ${want === undefined ? 'malformed' : JSON.stringify(want).slice(0, 80)}`, () => {
    assert.deepEqual(parseEntityTags(header), want);
  });
}

test('the time to parse entity tags does not grow with the square of their white space', () => {
  const startedAt = performance.now();
  assert.equal(parseEntityTags(`"a",${' '.repeat(50_000)}x`), undefined);
  assert.ok(performance.now() - startedAt < 2_000);
});

const known: readonly [ifNoneMatch: string, want: boolean][] = [
  ['"a"', true],
  ['W/"a"', true],
  ['"b"', false],
  ['"b", "a"', true],
  ['*', true],
  ['a', false],
  ['', false],
];

for (const [ifNoneMatch, want] of known) {
  test(`If-None-Match ${ifNoneMatch} ${want ? 'holds' : 'fails'} for the tag a`, () => {
    assert.equal(isNotModified(ifNoneMatch, 'a'), want);
  });
}

const modified = Date.parse('2020-01-02T03:04:05Z');
const validators = { tag: 'a', modified };
const at = 'Thu, 02 Jan 2020 03:04:05 GMT';
const before = 'Thu, 02 Jan 2020 03:04:04 GMT';
const after = 'Thu, 02 Jan 2020 03:04:06 GMT';

type Outcome = 'met' | 'not-modified' | 'failed';
const conditions: readonly [behaviour: string, headers: Readonly<Record<string, string>>, want: Outcome][] = [
  ['no condition', {}, 'met'],
  ['If-Match with the tag', { 'if-match': '"a"' }, 'met'],
  ['If-Match with a star', { 'if-match': '*' }, 'met'],
  ['If-Match with another tag', { 'if-match': '"b"' }, 'failed'],
  ['If-Match with the same tag as a weak one', { 'if-match': 'W/"a"' }, 'failed'],
  ['If-Match malformed', { 'if-match': 'a' }, 'failed'],
  ['If-Unmodified-Since with the same date', { 'if-unmodified-since': at }, 'met'],
  ['If-Unmodified-Since later', { 'if-unmodified-since': after }, 'met'],
  ['If-Unmodified-Since earlier', { 'if-unmodified-since': before }, 'failed'],
  ['If-Unmodified-Since without a valid date', { 'if-unmodified-since': 'yesterday' }, 'met'],
  ['If-Match before If-Unmodified-Since', { 'if-match': '"a"', 'if-unmodified-since': before }, 'met'],
  ['If-None-Match with the tag', { 'if-none-match': '"a"' }, 'not-modified'],
  ['If-None-Match with the same tag as a weak one', { 'if-none-match': 'W/"a"' }, 'not-modified'],
  ['If-None-Match with another tag', { 'if-none-match': '"b"' }, 'met'],
  ['If-None-Match without quotes', { 'if-none-match': 'a' }, 'met'],
  ['If-Modified-Since with the same date', { 'if-modified-since': at }, 'not-modified'],
  ['If-Modified-Since later', { 'if-modified-since': after }, 'not-modified'],
  ['If-Modified-Since earlier', { 'if-modified-since': before }, 'met'],
  ['If-Modified-Since in the future', { 'if-modified-since': 'Thu, 01 Jan 2099 00:00:00 GMT' }, 'met'],
  ['a date in RFC 850', { 'if-modified-since': 'Thursday, 02-Jan-20 03:04:05 GMT' }, 'not-modified'],
  ['If-Modified-Since in asctime', { 'if-modified-since': 'Thu Jan  2 03:04:05 2020' }, 'not-modified'],
  ['If-Modified-Since in asctime, earlier', { 'if-modified-since': 'Thu Jan  2 03:04:04 2020' }, 'met'],
  ['If-Modified-Since in ISO 8601', { 'if-modified-since': '2020-01-02T03:04:05Z' }, 'met'],
  ['If-Modified-Since empty', { 'if-modified-since': '' }, 'met'],
  ['If-None-Match before If-Modified-Since', { 'if-none-match': '"b"', 'if-modified-since': at }, 'met'],
  ['If-Match before If-None-Match', { 'if-match': '"b"', 'if-none-match': '"a"' }, 'failed'],
  ['If-Match and If-None-Match with the tag', { 'if-match': '"a"', 'if-none-match': '"a"' }, 'not-modified'],
];

for (const [behaviour, headers, want] of conditions) {
  test(`the result of ${behaviour} is ${want}`, () => {
    const evaluate = () => hasVersion({ header: (name) => headers[name] }, validators);
    if (want === 'failed') assert.throws(evaluate, { status: 412 });
    else assert.equal(evaluate(), want === 'not-modified');
  });
}

type Range = ReturnType<typeof requestedRange>;
const range = (start: number, end: number): Range => ({ start, end });

function rangeOf(headers: Readonly<Record<string, string | undefined>>, size: number): Range {
  return requestedRange({ method: 'GET', header: (name) => headers[name] }, validators.tag, size);
}

const versions: readonly [ifRange: string | undefined, want: boolean][] = [
  [undefined, true],
  ['"a"', true],
  [at, false],
  ['W/"a"', false],
  ['"b"', false],
  ['a', false],
  ['*', false],
  [before, false],
  [after, false],
];

for (const [ifRange, want] of versions) {
  test(`If-Range ${ifRange} ${want ? 'matches' : 'does not match'} the version`, () => {
    const given = rangeOf({ 'if-range': ifRange, range: 'bytes=0-0' }, 10);
    assert.deepEqual(given, want ? range(0, 0) : undefined);
  });
}

const nines = '9'.repeat(400);

const ranges: readonly [header: string | undefined, size: number, want: Range | 'unsatisfiable'][] = [
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
  ['bytes=-0', 0, 'unsatisfiable'],
  ['bytes=-1', 0, undefined],
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

for (const [header, size, want] of ranges) {
  const shown = header?.replace(nines, '99…99');
  test(`Range ${shown} of ${size} bytes parses as ${JSON.stringify(want) ?? 'no range'}`, () => {
    const parse = () => rangeOf({ range: header }, size);
    if (want !== 'unsatisfiable') return assert.deepEqual(parse(), want);
    assert.throws(parse, { status: 416, headers: { 'content-range': `bytes */${size}` } });
  });
}

const encodings: readonly [header: string | undefined, want: 'br' | 'gzip' | undefined][] = [
  [undefined, undefined],
  ['', undefined],
  ['gzip', 'gzip'],
  ['br', 'br'],
  ['gzip, deflate, br', 'br'],
  ['GZIP', 'gzip'],
  ['gzip;q=1', 'gzip'],
  ['gzip ; q=0.5 , br ; q=0.4', 'gzip'],
  ['br;q=0.5, gzip;q=0.5', 'br'],
  ['br;q=0, gzip', 'gzip'],
  ['br;q=0, gzip;q=0.000', undefined],
  ['*', 'br'],
  ['*;q=0', undefined],
  ['*;q=0, gzip', 'gzip'],
  ['br;q=0, *', 'gzip'],
  ['identity', undefined],
  ['identity, br', 'br'],
  ['identity;q=1, br;q=0.5', undefined],
  ['identity;q=0.5, br;q=1', 'br'],
  ['identity;q=0', undefined],
  ['identity;q=0, *', 'br'],
  ['deflate', undefined],
  ['gzip;q=x', undefined],
  ['gzip;q=', undefined],
  ['gzip;q=-1', undefined],
  ['brotli, x-gzip', undefined],
  [',,;q=1,', undefined],
  ['__proto__', undefined],
];

for (const [header, want] of encodings) {
  test(`Accept-Encoding ${JSON.stringify(header)} selects ${want ?? 'neither'} of br and gzip`, () => {
    assert.equal(chooseEncoding(header, ['br', 'gzip']), want);
  });
}

test('Accept-Encoding selects no coding when none is available', () =>
  assert.equal(chooseEncoding('*', []), undefined));

const weights: readonly [header: string, want: readonly (readonly [string, number])[]][] = [
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

for (const [header, want] of weights) {
  test(`the weights in ${JSON.stringify(header)} are ${JSON.stringify(want)}`, () => {
    assert.deepEqual([...parseWeights(header)], want);
  });
}

test('only the first hundred members and parameters of a list of weights are read', () => {
  const members = Array.from({ length: 5_000 }, (_, i) => `a${i}`);
  assert.deepEqual([...parseWeights(members.join()).keys()], members.slice(0, 100));
  assert.deepEqual([...parseWeights(`a${';x'.repeat(99)};q=0.1`)], [['a', 1]]);
});
