import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { postgresFeed } from '../../../src/storage/postgres/changes.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';
import { type FeedState, Settled } from '../../../src/storage/postgres/settled.ts';

const none: FeedState = { newest: 0, gone: 0, unbroken: 0, writers: null, standby: false };

/** What a query finds: the newest position, the last one before a gap, and the writers if it asks for them. */
function at(newest: number, unbroken: number, writers?: readonly string[]): Partial<FeedState> {
  return { newest, unbroken, ...(writers && { writers: [...writers] }) };
}

/** The settled position after each query, and whether the next query needs the list of writers. */
function settle(...states: Partial<FeedState>[]) {
  const settled = new Settled();
  const results = states.map((state) => {
    settled.add({ ...none, ...state });
    return { position: settled.position, needs: settled.needsWriters };
  });
  return { positions: results.map(({ position }) => position), needs: results.map(({ needs }) => needs) };
}

describe('the settled position of a feed', () => {
  it('is the end of the contiguous positions, and needs no list of the writers for them', () => {
    const { positions, needs } = settle(at(3, 3, []), at(5, 5), at(9, 7));
    assert.deepEqual(positions, [3, 5, 7]);
    assert.deepEqual(needs, [false, false, false]);
  });

  it('is 0 in an empty feed, which needs no further query', () => {
    assert.deepEqual(settle(at(0, 0, [])), { positions: [0], needs: [false] });
  });

  it('needs the list of writers at the start, and while a position is missing', () => {
    assert.equal(new Settled().needsWriters, true);
    const { positions, needs } = settle(at(3, 3, []), at(5, 3), at(6, 6));
    assert.deepEqual(positions, [3, 3, 6]);
    assert.deepEqual(needs, [false, true, false]);
  });

  it('passes a missing position after all transactions that may have it have ended', () => {
    const states = [at(5, 3, ['a', 'b']), at(8, 3, ['b', 'c']), at(9, 3, ['c']), at(9, 9, [])];
    assert.deepEqual(settle(...states).positions, [3, 3, 5, 9]);
  });

  it('does not wait for transactions that started after a missing position', () => {
    const { positions } = settle(at(5, 3, ['a']), at(5, 3, []), at(8, 5, ['a']));
    assert.deepEqual(positions, [3, 5, 5]);
  });

  it('is never before the removed changes', () => {
    const { positions, needs } = settle({ newest: 9, gone: 7, unbroken: 7, writers: ['a'] });
    assert.deepEqual([positions, needs], [[7], [false]]);
  });

  it('is unknown on a server that lacks changes of the previous server', () => {
    const { positions, needs } = settle(at(9, 9, []), at(7, 9), at(7, 7, []));
    assert.deepEqual(positions, [9, undefined, 7]);
    assert.deepEqual(needs, [false, true, false]);
  });

  it('does not depend on the writers of a previous server', () => {
    const { positions } = settle(at(9, 3, ['a']), at(7, 3), at(7, 5, ['b']));
    assert.deepEqual(positions, [3, undefined, 5]);
  });
});

it('a read of the feed waits for a write that is still running', async (t) => {
  // A read waits for a limited time, which does not pass here.
  t.mock.method(performance, 'now', () => 0);
  const states: FeedState[] = [
    { ...none, newest: 1, writers: ['a'] },
    { ...none, newest: 1, unbroken: 1, writers: [] },
  ];
  const record = { id: 1, name: 'Ada', role: 'admin', version: 1 };
  const row = { gone: 0, upto: 1, position: 1, time: new Date(0), type: 'user.created', record };
  const rows = [{ ...row, request_id: null, key: null }];
  const pool = { read: async () => states.splice(0, 1) } as unknown as PostgresPool;
  const pages = { read: async () => rows } as unknown as PostgresPool;
  const { changes } = await postgresFeed(pool, pages, 100).read({ after: 0, limit: 10 });
  const records = changes.map((change) => change.record);
  assert.deepEqual(records, [record]);
  assert.equal(states.length, 0);
});

it('a read of the feed keeps the position of a reader that comes from a process with a higher settled one', async () => {
  let asked = 0;
  const read = async () => {
    asked += 1;
    return [{ ...none, newest: 3, unbroken: 1, writers: ['a'] }];
  };
  const pages = { read: () => assert.fail('it has no further change') } as unknown as PostgresPool;
  const feed = postgresFeed({ read } as unknown as PostgresPool, pages, 100);
  assert.deepEqual(await feed.read({ after: 3, limit: 10 }), { changes: [], next: 3, more: false });
  assert.equal(asked, 1);
});

it('a read of the feed fails if the changes after its position are removed before they are read', async () => {
  const pool = { read: async () => [{ ...none, newest: 9, unbroken: 9 }] } as unknown as PostgresPool;
  const pages = { read: async () => [{ gone: 5, upto: 9, position: null }] } as unknown as PostgresPool;
  const { read } = postgresFeed(pool, pages, 100);
  await assert.rejects(read({ after: 4, limit: 10 }), { kind: 'gone' });
  assert.deepEqual(await read({ after: 5, limit: 10 }), { changes: [], next: 9, more: false });
});
