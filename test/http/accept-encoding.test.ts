import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseEncoding } from '../../src/http/accept-encoding.ts';

const cases: readonly [header: string | undefined, want: 'br' | 'gzip' | undefined][] = [
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

for (const [header, want] of cases) {
  test(`of br and gzip, ${JSON.stringify(header)} takes ${want ?? 'neither'}`, () => {
    assert.equal(chooseEncoding(header, ['br', 'gzip']), want);
  });
}

test('nothing on offer is nothing taken', () => assert.equal(chooseEncoding('*', []), undefined));
