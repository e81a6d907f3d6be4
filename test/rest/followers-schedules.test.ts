import assert from 'node:assert/strict';
import type { ChangePage } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import type { ChangeFeed } from '../../src/domain/repository.ts';
import type { HttpRequest } from '../../src/http/request.ts';
import { Followers } from '../../src/rest/followers.ts';
import { KeptChanges } from '../../src/storage/memory/changes.ts';
import { type Scheduler, testSchedules } from '../support/scheduler.ts';

const changesKept = 6;
const limit = 3;

/** The feed of a store that is slow and sometimes fails. */
function slowFeed(scheduler: Scheduler, feed: ChangeFeed): ChangeFeed {
  return {
    async read(query) {
      await scheduler.turn();
      if (scheduler.oneIn(10)) throw new DomainError('unavailable', 'the store is not available');
      const page = await feed.read(query);
      await scheduler.turn();
      return page;
    },
    async position() {
      await scheduler.turn();
      return feed.position();
    },
    watch: (wake) => feed.watch(() => scheduler.soon(wake)),
  };
}

testSchedules(
  'followers receive every change once and in order after each resume, or learn that changes are gone',
  async (scheduler) => {
    const kept = new KeptChanges({ changesKept });
    const { changes: store } = kept.feed();
    assert.ok(store);
    const feed = slowFeed(scheduler, store);
    let hasFailed = false;
    const followers = new Followers(feed, 0, () => {
      hasFailed = true;
    });
    const made: number[] = [];
    const times: number[] = [];
    let isWritten = false;
    const write = async () => {
      for (let id = 1; id <= 4 + scheduler.random.below(20); id += 1) {
        const isRestarted = scheduler.oneIn(40);
        if (isRestarted) kept.restart();
        kept.add('user.created', { id, name: 'Ann', version: 1 });
        made.push(await store.position());
        times.push(scheduler.now);
        if (scheduler.oneIn(3)) await scheduler.turn();
        if (scheduler.oneIn(15)) followers.disconnect();
      }
      isWritten = true;
    };
    const follow = async () => {
      let after = 0;
      let from = 0;
      const seen: number[] = [];
      const isDone = () => isWritten && after >= (made.at(-1) ?? 0);
      while (!isDone()) {
        const aborter = new AbortController();
        const chunkBytes = scheduler.oneIn(2) ? 100 : 64 * 1024;
        const request = {
          signal: aborter.signal,
          basePath: '',
          chunkBytes,
          becomeLongLived: () => undefined,
        };
        const query = { after, limit };
        let first: ChangePage;
        try {
          first = await feed.read(query);
        } catch (caught) {
          if (DomainError.from(caught).kind === 'gone') {
            after = await store.position();
            from = after;
            seen.length = 0;
          }
          continue;
        }
        const leavesAfter = 1 + scheduler.random.below(6);
        let texts = 0;
        const timer = setInterval(() => isDone() && aborter.abort(), 100);
        try {
          for await (const text of followers.follow(query, first, request as unknown as HttpRequest)) {
            for (const [, id, data] of text.matchAll(/^id: (\d+)\n(data)?/gm)) {
              assert.ok(Number(id) >= after, `position ${id} after ${after}`);
              if (data !== undefined) seen.push(Number(id));
              after = Number(id);
            }
            // Heartbeats are 15 s apart. New changes must not wait for the next one.
            const isLate = made.some(
              (position, i) => position > after && (times[i] ?? 0) < scheduler.now - 10_000,
            );
            assert.ok(!text.startsWith(':') || !isLate || hasFailed, 'a follower was not woken');
            texts += 1;
            if (scheduler.oneIn(3)) await scheduler.turn();
            if (texts > leavesAfter) break;
            if (isDone()) aborter.abort();
          }
        } catch (caught) {
          assert.equal(DomainError.from(caught).kind, 'unavailable');
        }
        clearInterval(timer);
      }
      assert.deepEqual(
        seen,
        made.filter((position) => position > from),
        'the follower missed, repeated or reordered changes',
      );
    };
    await Promise.all([write(), ...Array.from({ length: 1 + scheduler.random.below(3) }, follow)]);
    assert.equal(followers.open, 0, 'a follower is still open');
  },
);
