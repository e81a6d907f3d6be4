import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Followers } from '../../../src/storage/postgres/followers.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';

test('followers that get no notifications wake 20 times a second, until the last of them leaves', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const connect = () => new Promise<never>(() => {});
  const followers = new Followers({ connect } as unknown as PostgresPool);
  const woken = { first: 0, last: 0 };
  const wokenInOneSecond = () => {
    Object.assign(woken, { first: 0, last: 0 });
    for (let ms = 0; ms < 1_000; ms += 10) t.mock.timers.tick(10);
    return { ...woken };
  };
  const leaveFirst = followers.add(() => {
    woken.first += 1;
  });
  const leaveLast = followers.add(() => {
    woken.last += 1;
  });
  const { first, last } = wokenInOneSecond();
  assert.ok(first >= 18 && first <= 20, `woken ${first} times`);
  assert.equal(last, first);
  leaveFirst();
  const then = wokenInOneSecond();
  assert.equal(then.first, 0);
  assert.ok(then.last >= 18 && then.last <= 20, `woken ${then.last} times`);
  leaveLast();
  assert.deepEqual(wokenInOneSecond(), { first: 0, last: 0 });
});
