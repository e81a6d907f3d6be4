import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { PostgresChanges } from '../../../src/storage/postgres/changes.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';

test('the feed of PostgreSQL looks for changes of other processes 50 times a second while it has a watcher', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  let looks = 0;
  const read = async () => {
    looks += 1;
    return [{ newest: looks, gone: 0, unbroken: looks, writers: null, standby: false }];
  };
  const pool = { read } as unknown as PostgresPool;
  const feed = new PostgresChanges(pool, pool, 100);
  let woken = 0;
  const wokenInOneSecond = async () => {
    woken = 0;
    for (let ms = 0; ms < 1_000; ms += 10) {
      t.mock.timers.tick(10);
      for (let turn = 0; turn < 3; turn += 1) await nextTurn();
    }
    return woken;
  };
  const unwatch = feed.watch(() => {
    woken += 1;
  });
  const times = await wokenInOneSecond();
  assert.ok(times >= 45 && times <= 50, `woken ${times} times`);
  unwatch();
  const before = looks;
  assert.equal(await wokenInOneSecond(), 0);
  assert.equal(looks, before);
});
