import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PostgresChanges } from '../../../src/storage/postgres/changes.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';

test('followers look for changes of other processes 50 times a second, until the last of them leaves', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  let looks = 0;
  const read = async () => {
    looks += 1;
    return [{ newest: looks, gone: 0, unbroken: looks, writers: null, standby: false }];
  };
  const pool = { read } as unknown as PostgresPool;
  const feed = new PostgresChanges(pool, pool, 100);
  const woken = { first: 0, last: 0 };
  const wokenInOneSecond = async () => {
    Object.assign(woken, { first: 0, last: 0 });
    for (let ms = 0; ms < 1_000; ms += 10) {
      t.mock.timers.tick(10);
      for (let turn = 0; turn < 3; turn += 1) await nextTurn();
    }
    return { ...woken };
  };
  const leaveFirst = feed.watch(() => {
    woken.first += 1;
  });
  const leaveLast = feed.watch(() => {
    woken.last += 1;
  });
  const { first, last } = await wokenInOneSecond();
  assert.ok(first >= 45 && first <= 50, `woken ${first} times`);
  assert.equal(last, first);
  leaveFirst();
  const then = await wokenInOneSecond();
  assert.equal(then.first, 0);
  assert.ok(then.last >= 45 && then.last <= 50, `woken ${then.last} times`);
  leaveLast();
  const before = looks;
  assert.deepEqual(await wokenInOneSecond(), { first: 0, last: 0 });
  assert.equal(looks, before);
});
