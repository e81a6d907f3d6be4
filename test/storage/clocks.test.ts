import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { coalesced, occasionally } from '../../src/domain/promises.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { testSchedules } from '../support/scheduler.ts';

const idempotencyTtlMs = 1_000;

testSchedules(
  'an idempotency key creates one record until it expires by the clock, even when the clock is stepped',
  async (scheduler) => {
    const store = createMemoryStore({ idempotencyTtlMs });
    const known = new Map<string, { id: number; expiresAt: number; mayBeDropped?: boolean }>();
    let next = 0;
    for (let step = 0; step < 40; step += 1) {
      await scheduler.sleep(scheduler.random.below(idempotencyTtlMs / 2));
      if (scheduler.oneIn(6)) scheduler.dayMs += scheduler.random.below(8_000) - 4_000;
      const key = `key ${scheduler.random.below(4)}`;
      const now = Date.now();
      const kept = known.get(key);
      const isKept = kept !== undefined && kept.expiresAt > now;
      const idempotency = { key, fingerprint: 'the same' };
      const { value, replayed } = await store.users.create({ name: 'Ada' }, { idempotency });
      if (!replayed) next += 1;
      // After a key has expired, a step back need not make it valid again.
      if (kept?.mayBeDropped !== true || !isKept) assert.equal(replayed, isKept);
      assert.equal(value.id, replayed ? kept?.id : next);
      for (const one of known.values()) if (one.expiresAt <= now) one.mayBeDropped = true;
      if (!replayed) known.set(key, { id: next, expiresAt: now + idempotencyTtlMs });
      else {
        const another = { key, fingerprint: 'another' };
        await assert.rejects(store.users.create({ name: 'Ada' }, { idempotency: another }));
      }
    }
  },
);

testSchedules(
  'a shared result is never older than the call, and only one query runs at a time',
  async (scheduler) => {
    let asked = 0;
    let state = 0;
    const ask = coalesced(async () => {
      asked += 1;
      assert.equal(asked, 1, 'two queries run at a time');
      try {
        await scheduler.turn();
        const seen = state;
        await scheduler.turn();
        if (scheduler.oneIn(6)) throw new Error('no answer');
        return seen;
      } finally {
        asked -= 1;
      }
    });
    const call = async () => {
      const before = state;
      const answer = await ask().catch(() => undefined);
      if (answer !== undefined) assert.ok(answer >= before, `${answer} is older than ${before}`);
    };
    const calls: Promise<void>[] = [];
    for (let i = 0; i < 20; i += 1) {
      state += 1;
      calls.push(call());
      if (scheduler.oneIn(2)) await scheduler.turn();
    }
    await Promise.all(calls);
  },
);

test('an occasional task starts at the first of every three calls, also after it has failed', async () => {
  const [started, failures]: [number[], unknown[]] = [[], []];
  let call = 0;
  const run = occasionally(
    3,
    async () => {
      started.push(call);
      throw new Error('no answer');
    },
    (cause) => failures.push(cause),
  );
  for (call = 1; call <= 7; call += 1) {
    run();
    await setImmediate();
  }
  assert.deepEqual([started, failures.length], [[1, 4, 7], 3]);
});
