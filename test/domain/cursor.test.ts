import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CursorSealer, type Position, positionOf } from '../../src/domain/cursor.ts';
import { parseUserQuery } from '../../src/domain/list-query.ts';
import { refuses, show } from './refuses.ts';

const secret = new Uint8Array(32).fill(7);
const sealer = new CursorSealer(secret);
const sortOf = (text: string) => parseUserQuery([['sort', text]]).sort;
const byName = sortOf('name');

describe('a sealed cursor', () => {
  const positions: readonly Position[] = [
    ['Ada', 1],
    ['', 2147483647],
    ['"\\\n', 1],
    ['\u{1f600}\uff21é', 5],
    ['x'.repeat(200), 1],
  ];
  for (const position of positions) {
    it(`opens to the position ${show(position)}`, () => {
      assert.deepEqual(sealer.open('users', byName, sealer.seal('users', byName, position)), position);
    });
  }

  it('is fit for an address as it is', () => {
    assert.match(sealer.seal('users', byName, ['\u{1f600}?&=/+ %', 1]), /^[\w-]+$/);
  });

  it('opens wherever the secret is the same', () => {
    const cursor = sealer.seal('users', byName, ['Ada', 1]);
    assert.deepEqual(new CursorSealer(Uint8Array.from(secret)).open('users', byName, cursor), ['Ada', 1]);
  });

  const cursor = sealer.seal('users', byName, ['Ada', 1]);
  for (const [what, open] of [
    ['another secret', () => new CursorSealer(new Uint8Array(32)).open('users', byName, cursor)],
    ['another list', () => sealer.open('posts 1', byName, cursor)],
    ['another filter', () => sealer.open('users admin', byName, cursor)],
    ['no list', () => sealer.open('', byName, cursor)],
    ['another direction', () => sealer.open('users', sortOf('-name'), cursor)],
    ['another tie-break', () => sealer.open('users', sortOf('name,-id'), cursor)],
    ['another sort', () => sealer.open('users', sortOf('role'), cursor)],
    // Scope, sort and position are told apart, not run together.
    ['a scope that takes in the sort', () => sealer.open('users\nname,id', [], cursor)],
  ] as const) {
    it(`does not open for ${what}`, () => refuses(open, 'cursor'));
  }

  it('does not open with any bit changed', () => {
    const bytes = Buffer.from(cursor, 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const forged = Buffer.from(bytes);
      forged[bit >> 3] = (forged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      refuses(() => sealer.open('users', byName, forged.toString('base64url')), 'cursor');
    }
  });

  it('does not open cut short or made longer', () => {
    for (let length = 0; length < cursor.length; length += 1) {
      refuses(() => sealer.open('users', byName, cursor.slice(0, length)), 'cursor');
    }
    for (const more of ['A', '=', '==', ' ', '\n', '%', '.', 'é']) {
      refuses(() => sealer.open('users', byName, cursor + more), 'cursor');
      refuses(() => sealer.open('users', byName, more + cursor), 'cursor');
    }
  });

  it('does not open in another spelling of the same bytes', () => {
    const padded = sealer.seal('users', byName, ['Ad', 1]);
    const bytes = Buffer.from(padded, 'base64url');
    for (const spelling of [bytes.toString('base64'), bytes.toString('hex'), `${padded}\t`]) {
      if (spelling !== padded) refuses(() => sealer.open('users', byName, spelling), 'cursor');
    }
  });

  it('does not show what it is made of in its refusal', () => {
    assert.throws(
      () => sealer.open('users', byName, 'forged'),
      (error) => error instanceof Error && !/forged|users|07/.test(error.message),
    );
  });
});

describe('positionOf', () => {
  for (const [sort, position] of [
    ['id', [5]],
    ['name', ['Ada', 5]],
    ['role', ['', 5]],
    ['-role,name,-id', ['', 'Ada', 5]],
  ] as const) {
    it(`by ${sort} is ${show(position)}, an absent role the empty text`, () => {
      assert.deepEqual(positionOf({ id: 5, name: 'Ada' }, sortOf(sort)), position);
    });
  }
});

describe('page', () => {
  const query = parseUserQuery([['limit', '2']]);
  const rows = [{ id: 1 }, { id: 2 }, { id: 3 }];
  for (const [given, items, more] of [
    [0, 0, false],
    [1, 1, false],
    [2, 2, false],
    [3, 2, true],
  ] as const) {
    it(`of ${given} rows read for a limit of 2 holds ${items}, ${more ? 'and more follow' : 'the last'}`, () => {
      const page = sealer.page('users', query, rows.slice(0, given));
      assert.deepEqual(page.items, rows.slice(0, items));
      assert.equal(page.next !== undefined, more);
      assert.equal('next' in page, more);
      if (page.next !== undefined) assert.deepEqual(sealer.open('users', query.sort, page.next), [2]);
    });
  }
});
