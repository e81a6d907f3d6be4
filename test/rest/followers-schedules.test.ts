import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';
import { type Change, type ChangeType, changeTypes } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import type { ChangeFeed } from '../../src/domain/repository.ts';
import type { HttpRequest } from '../../src/http/request.ts';
import { scheduler as eventLoop } from '../../src/http/scheduler.ts';
import { Followers } from '../../src/rest/followers.ts';
import { until } from '../kit/until.ts';
import { countKept } from '../support/garbage.ts';
import { KeptChanges } from '../support/kept-changes.ts';
import { Scheduler, testSchedules } from '../support/scheduler.ts';

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

/** A feed that counts its reads and the changes that they returned. */
function counted(kept: KeptChanges) {
  const done = { reads: 0, changes: 0 };
  const feed: ChangeFeed = {
    position: () => kept.position(),
    watch: (wake) => kept.watch(wake),
    async read(query) {
      done.reads += 1;
      const page = await kept.read(query);
      done.changes += page.changes.length;
      return page;
    },
  };
  return { feed, done };
}

function requestOf(signal: AbortSignal, chunkBytes = 64 * 1024): HttpRequest {
  const listener = { draining: false };
  const request = { signal, listener, basePath: '', chunkBytes, becomeLongLived: () => undefined };
  return request as unknown as HttpRequest;
}

testSchedules(
  'followers receive every change once and in order after each resume, or learn that changes are gone',
  async (scheduler) => {
    const kept = new KeptChanges(changesKept);
    const feed = slowFeed(scheduler, kept);
    let hasFailed = false;
    const followers = new Followers(feed, 0, () => {
      hasFailed = true;
    });
    const made: { position: number; type: ChangeType; at: number }[] = [];
    let isWritten = false;
    const write = async () => {
      for (let id = 1; id <= 4 + scheduler.random.below(20); id += 1) {
        const isRestarted = scheduler.oneIn(40);
        if (isRestarted) kept.restart();
        const type = scheduler.oneIn(3) ? 'user.updated' : 'user.created';
        kept.add(type, { id, name: 'Ann', version: 1 });
        made.push({ position: await kept.position(), type, at: scheduler.now });
        if (scheduler.oneIn(3)) await scheduler.turn();
        if (scheduler.oneIn(15)) followers.disconnect();
      }
      isWritten = true;
    };
    const follow = async () => {
      let after = 0;
      let from = 0;
      const seen: number[] = [];
      const types: readonly ChangeType[] = scheduler.oneIn(2) ? changeTypes : ['user.updated'];
      const wanted = () => made.filter(({ type }) => types.includes(type));
      const isDone = () => isWritten && after >= (wanted().at(-1)?.position ?? 0);
      while (!isDone()) {
        const aborter = new AbortController();
        const request = requestOf(aborter.signal, scheduler.oneIn(2) ? 100 : undefined);
        const query = { after, limit, types };
        try {
          await feed.read(query);
        } catch (caught) {
          if (DomainError.from(caught).kind === 'gone') {
            after = await kept.position();
            from = after;
            seen.length = 0;
          }
          continue;
        }
        const leavesAfter = 1 + scheduler.random.below(6);
        let texts = 0;
        const timer = setInterval(() => isDone() && aborter.abort(), 100);
        try {
          for await (const text of followers.follow(query, request)) {
            for (const [, id, data] of text.matchAll(/^id: (\d+)\n(data)?/gm)) {
              assert.ok(Number(id) >= after, `position ${id} after ${after}`);
              after = Number(id);
              if (data === undefined) continue;
              seen.push(after);
              // The heartbeat comes every 15 s. A change must not wait for it.
              const { at = 0 } = made.find(({ position }) => position === after) ?? {};
              assert.ok(hasFailed || scheduler.now - at < 10_000, `${after} waited for the heartbeat`);
            }
            texts += 1;
            if (scheduler.oneIn(3)) await scheduler.turn();
            if (texts > leavesAfter) break;
            if (isDone()) aborter.abort();
          }
        } catch (caught) {
          if (caught instanceof assert.AssertionError) throw caught;
          assert.equal(DomainError.from(caught).kind, 'unavailable');
        }
        clearInterval(timer);
      }
      const expected = wanted().flatMap(({ position }) => (position > from ? [position] : []));
      assert.deepEqual(seen, expected, 'the follower missed, repeated or reordered changes');
    };
    await Promise.all([write(), ...Array.from({ length: 1 + scheduler.random.below(3) }, follow)]);
    assert.equal(followers.open, 0, 'a follower is still open');
    // The reader may still wait for its turn.
    await eventLoop.pause();
  },
);

it('sends a change that was made after the stream has started, without waiting for the heartbeat', async (t) => {
  const kept = new KeptChanges(changesKept);
  const followers = new Followers(kept, 0, (event) => assert.fail(inspect(event)));
  const follow = () => followers.follow({ after: 0, limit }, requestOf(AbortSignal.timeout(10_000)));
  const [first, second] = [follow(), follow()];
  t.after(() => Promise.all([first.return(undefined), second.return(undefined)]));
  await first.next();
  kept.add('user.created', { id: 1, name: 'Ann', version: 1 });
  for (const follower of [first, second]) {
    let text = '';
    while (!text.startsWith('id: 1\n')) {
      const { value, done } = await follower.next();
      assert.ok(!done, 'the change was not sent');
      text = value;
    }
  }
});

it('ends without an error if a read fails after the stream was disconnected', async (t) => {
  const kept = new KeptChanges(changesKept);
  const failing = Promise.withResolvers<never>();
  const position = async () => 5;
  const feed: ChangeFeed = { position, watch: (wake) => kept.watch(wake), read: () => failing.promise };
  const followers = new Followers(feed, 0, () => undefined);
  const follow = (after: number) =>
    followers.follow({ after, limit }, requestOf(AbortSignal.timeout(10_000)));
  // The second one is behind the newest changes, so it reads from the store.
  const [newest, behind] = [follow(5), follow(0)];
  t.after(() => newest.return(undefined));
  for (const stream of [newest, behind]) await stream.next();
  const end = behind.next();
  followers.disconnect();
  failing.reject(new DomainError('unavailable', 'the store is closed'));
  assert.deepEqual(await end, { done: true, value: undefined });
});

it('reads the changes once for all followers with any filter, also when they need several chunks', async (t) => {
  const kept = new KeptChanges(100);
  const { feed, done } = counted(kept);
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const aborter = new AbortController();
  const texts = Array.from({ length: 1_000 }, () => '');
  const running = texts.map(async (_, i) => {
    const query = { after: 0, limit, ...(i % 3 === 0 && { userId: (i % 5) + 1 }) };
    const request = requestOf(aborter.signal, 200);
    for await (const text of followers.follow(query, request)) texts[i] += text;
  });
  for (let id = 1; id <= 5; id += 1) kept.add('user.created', { id, name: 'Ann', version: 1 });
  const checkTexts = () => {
    for (const [i, text] of texts.entries()) {
      const ids = [...text.matchAll(/^id: (\d+)\ndata/gm)].map(([, id]) => Number(id));
      assert.deepEqual(ids, i % 3 === 0 ? [(i % 5) + 1] : [1, 2, 3, 4, 5]);
    }
  };
  await t.waitFor(checkTexts, { timeout: 60_000 });
  assert.ok(done.reads <= 6, `${done.reads} reads`);
  aborter.abort();
  await Promise.all(running);
  assert.equal(followers.open, 0);
});

it('reads only a few changes at first for each of many clients that are far behind', async (t) => {
  const kept = new KeptChanges(1_000);
  const body = 'x'.repeat(10_000);
  for (let id = 1; id <= 100; id += 1)
    kept.add('post.created', { id, userId: 1, title: 'A', body, version: 1 });
  const { feed, done } = counted(kept);
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const request = requestOf(AbortSignal.timeout(10_000));
  const newest = followers.follow({ after: 100, limit: 100 }, request);
  const behind = Array.from({ length: 100 }, () => followers.follow({ after: 0, limit: 100 }, request));
  t.after(() => Promise.all([newest, ...behind].map((stream) => stream.return(undefined))));
  await newest.next();
  for (const stream of behind) await stream.next();
  assert.equal(done.changes, 0, 'changes were read before their clients could receive them');
  for (const stream of behind) await stream.next();
  assert.ok(
    done.changes <= 4 * behind.length,
    `${done.changes} changes were read for ${behind.length} followers`,
  );
});

/** Followers of a server that is replaced by another one: in between, a change is written, and a read fails. */
function followersWithFailover(lost: KeptChanges, current: ChangeFeed) {
  let source: ChangeFeed | undefined = lost;
  const feed: ChangeFeed = {
    read: async (query) => source?.read(query) ?? Promise.reject(new Error('the connection was lost')),
    position: () => current.position(),
    watch: (wake) => lost.watch(wake),
  };
  let failures = 0;
  const followers = new Followers(feed, 0, () => {
    failures += 1;
  });
  const failOver = async (user: { id: number; name: string; version: number }): Promise<void> => {
    source = undefined;
    lost.add('user.created', user);
    await until(() => failures > 0, 'a read has failed');
    source = current;
  };
  return { followers, failOver };
}

it('never sends changes that were lost in a failover, also after it has dropped the oldest of them', async (t) => {
  const body = 'x'.repeat(10_000);
  const filled = (title: string, count: number) => {
    const kept = new KeptChanges(1_000);
    for (let id = 1; id <= count; id += 1)
      kept.add('post.created', { id, userId: 1, title, body, version: 1 });
    return kept;
  };
  const lost = filled('lost', 100);
  // The newest changes are kept in memory without the first 50.
  const { feed: current, done } = counted(filled('current', 450));
  const { followers, failOver } = followersWithFailover(lost, current);
  const request = requestOf(AbortSignal.timeout(30_000), 1024 * 1024);
  const follow = (after: number) => {
    const stream = followers.follow({ after, limit }, request);
    t.after(() => stream.return(undefined));
    return stream;
  };
  const newest = follow(0);
  let text = '';
  while (!text.includes('id: 100\n')) text = String((await newest.next()).value);
  await failOver({ id: 1, name: 'Ann', version: 1 });
  await until(() => done.changes >= 350, 'the reader has read the changes of the new server', 20_000);
  const behind = follow(60);
  await behind.next();
  assert.match(String((await behind.next()).value), /^id: 61\n.*"title":"current"/);
});

it('sends a change of a new server that has as many as the last one when the reader asks it first', async (t) => {
  // No heartbeat wakes the follower.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const [lost, kept] = [new KeptChanges(10), new KeptChanges(10)];
  for (let id = 1; id <= 3; id += 1) lost.add('user.created', { id, name: 'lost', version: 1 });
  kept.add('user.created', { id: 1, name: 'Ann', version: 1 });
  const { feed: current, done } = counted(kept);
  const { followers, failOver } = followersWithFailover(lost, current);
  const request = requestOf(AbortSignal.timeout(30_000));
  const [ahead, behind] = [0, 1].map((after) => followers.follow({ after, limit }, request));
  assert.ok(ahead && behind);
  t.after(() => Promise.all([ahead.return(undefined), behind.return(undefined)]));
  let text = '';
  while (!text.includes('id: 3\n')) text = String((await ahead.next()).value);
  await failOver({ id: 4, name: 'lost', version: 1 });
  await behind.next();
  const next = behind.next();
  await until(() => done.reads > 0, 'the follower has found no change');
  for (const id of [2, 3]) kept.add('user.created', { id, name: 'Ann', version: 1 });
  assert.match(String((await next).value), /^id: 2\n/);
});

it('does not read all changes for a first follower that is far behind, and sends a new change to others', async (t) => {
  const kept = new KeptChanges(10_000);
  for (let id = 1; id <= 5_000; id += 1) kept.add('user.created', { id, name: 'Ann', version: 1 });
  const { feed, done } = counted(kept);
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const request = requestOf(AbortSignal.timeout(10_000));
  const behind = followers.follow({ after: 0, limit }, request);
  const newest = followers.follow({ after: 5_000, limit }, request);
  t.after(() => Promise.all([behind.return(undefined), newest.return(undefined)]));
  await behind.next();
  await newest.next();
  const next = newest.next();
  await setImmediate();
  kept.add('user.created', { id: 5_001, name: 'Ann', version: 1 });
  assert.match((await next).value ?? '', /^id: 5001\n/);
  assert.ok(done.changes <= 110, `${done.changes} changes were read`);
});

it('jumps to the newest change for a follower that is far behind, even if it came during a read for an earlier one', async (t) => {
  const kept = new KeptChanges(10_000);
  for (let id = 1; id <= 5_000; id += 1) kept.add('user.created', { id, name: 'Ann', version: 1 });
  const { feed: whole, done } = counted(kept);
  const held: PromiseWithResolvers<void>[] = [];
  const feed: ChangeFeed = {
    ...whole,
    async read(query) {
      if (query.after === 5_000) {
        const hold = Promise.withResolvers<void>();
        held.push(hold);
        await hold.promise;
      }
      return await whole.read(query);
    },
  };
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const request = requestOf(AbortSignal.timeout(10_000));
  const first = followers.follow({ after: 5_000, limit }, request);
  await first.next();
  await first.return(undefined);
  const behind = followers.follow({ after: 0, limit }, request);
  t.after(() => behind.return(undefined));
  await behind.next();
  // The read for the first follower ends, which was near the newest change.
  held[0]?.resolve();
  for (let turn = 0; turn < 20; turn += 1) await setImmediate();
  assert.ok(done.changes <= 110, `${done.changes} changes were read`);
});

it('lets others run while a follower that is far behind finds no change that it wants', async (t) => {
  const kept = new KeptChanges(10_000);
  for (let id = 1; id <= 5_000; id += 1) kept.add('user.created', { id, name: 'Ann', version: 1 });
  kept.add('user.updated', { id: 1, name: 'Bea', version: 2 });
  const { feed: whole, done } = counted(kept);
  const feed: ChangeFeed = {
    ...whole,
    // As a database, which examines only some of the changes in each read.
    async read({ types = changeTypes, ...query }) {
      const page = await whole.read(query);
      return { ...page, changes: page.changes.filter(({ type }) => types.includes(type)) };
    },
  };
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const query = { after: 0, limit, types: ['user.updated'] } as const;
  const stream = followers.follow(query, requestOf(AbortSignal.timeout(10_000)));
  t.after(() => stream.return(undefined));
  await stream.next();
  const pause = t.mock.method(eventLoop, 'pause');
  assert.match((await stream.next()).value ?? '', /^id: 5001\n/);
  assert.ok(done.reads > 5, `${done.reads} reads`);
  // The last read finds the change, and the first one is the reader's.
  assert.ok(
    pause.mock.callCount() >= done.reads - 2,
    `${pause.mock.callCount()} turns for ${done.reads} reads`,
  );
});

it('lets the scheduler distribute the work when all followers wake at once', async (t) => {
  const kept = new KeptChanges(changesKept);
  const followers = new Followers(kept, 0, (event) => assert.fail(inspect(event)));
  const request = requestOf(AbortSignal.timeout(10_000));
  const streams = Array.from({ length: 100 }, () => followers.follow({ after: 0, limit }, request));
  t.after(() => Promise.all(streams.map((stream) => stream.return(undefined))));
  for (const stream of streams) await stream.next();
  const waiting = streams.map((stream) => stream.next());
  await setImmediate();
  kept.add('user.created', { id: 1, name: 'Ann', version: 1 });
  for (let step = 0; step < 1_000; step += 1) await undefined;
  assert.equal(followers.sent, 0, 'chunks were prepared without a turn of the scheduler');
  await Promise.all(waiting);
  assert.equal(followers.sent, streams.length);
});

it('lets others run between the reads of many new changes', async (t) => {
  const kept = new KeptChanges(10_000);
  const { feed, done } = counted(kept);
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const stream = followers.follow({ after: 0, limit }, requestOf(AbortSignal.timeout(10_000)));
  t.after(() => stream.return(undefined));
  await stream.next();
  await until(() => done.reads === 1, 'the first read');
  const pause = t.mock.method(eventLoop, 'pause');
  for (let id = 1; id <= 1_000; id += 1) kept.add('user.created', { id, name: 'Ann', version: 1 });
  await until(() => done.changes === 1_000, 'all changes were read');
  assert.ok(done.reads > 10, `${done.reads} reads`);
  assert.ok(
    pause.mock.callCount() >= done.reads - 2,
    `${pause.mock.callCount()} turns for ${done.reads} reads`,
  );
});

it('ends a stream at once while the store does not answer a read', async () => {
  const feed: ChangeFeed = {
    read: () => new Promise(() => undefined),
    position: async () => 0,
    watch: () => () => undefined,
  };
  const followers = new Followers(feed, 0, () => undefined);
  const stream = followers.follow({ after: 0, limit }, requestOf(new AbortController().signal));
  await stream.next();
  const next = stream.next();
  followers.disconnect();
  // A heartbeat would come only after 15 s.
  assert.equal((await next).done, true);
  assert.equal(followers.open, 0);
});

it('ends a stream that begins while the service drains', async () => {
  const followers = new Followers(new KeptChanges(10), 0, (event) => assert.fail(inspect(event)));
  const request = requestOf(new AbortController().signal);
  request.listener.draining = true;
  let text = '';
  for await (const part of followers.follow({ after: 0, limit }, request)) text += part;
  assert.match(text, /^retry: \d+\nid: 0\n\n$/);
  assert.equal(followers.open, 0);
});

it('while the store fails, all followers share one retry a second and receive heartbeats', () =>
  new Scheduler(1).run(async (scheduler) => {
    const aborter = new AbortController();
    let reads = 0;
    let isFailing = true;
    const feed: ChangeFeed = {
      async read() {
        reads += 1;
        if (isFailing) throw new DomainError('unavailable', 'the store is not available');
        return { changes: [], next: 7, more: false };
      },
      position: async () => 0,
      // As the PostgreSQL store, which wakes its watchers at each failed look.
      watch(wake) {
        const timer = setInterval(wake, 20);
        return () => clearInterval(timer);
      },
    };
    let failures = 0;
    const followers = new Followers(feed, 0, () => {
      failures += 1;
    });
    const beats = Array.from({ length: 50 }, () => 0);
    const running = beats.map(async (_, i) => {
      const request = requestOf(aborter.signal);
      for await (const text of followers.follow({ after: 0, limit }, request)) {
        if (text.startsWith(':') && beats[i] !== undefined) beats[i] += 1;
      }
    });
    await scheduler.sleep(31_000);
    assert.ok(reads >= 20 && reads <= 32, `${reads} reads in 31 s`);
    assert.equal(failures, reads, 'each failed read is reported once');
    assert.deepEqual(beats, Array(50).fill(2));
    isFailing = false;
    await scheduler.sleep(1_100);
    assert.ok(reads > failures);
    aborter.abort();
    await Promise.all(running);
    assert.equal(followers.open, 0);
  }));

it('does not report a read that fails after the last follower has left', async (t) => {
  const [reading, result] = [Promise.withResolvers<void>(), Promise.withResolvers<never>()];
  const feed: ChangeFeed = {
    read() {
      reading.resolve();
      return result.promise;
    },
    position: async () => 0,
    watch: () => () => undefined,
  };
  const observe = t.mock.fn();
  const stream = new Followers(feed, 0, observe).follow({ after: 0, limit }, requestOf(t.signal));
  await stream.next();
  await reading.promise;
  await stream.return(undefined);
  result.reject(new Error('the store is closed'));
  await setImmediate();
  assert.equal(observe.mock.callCount(), 0);
});

it('keeps no listener, watch or change after its last follower, also if the next watch fails', async () => {
  const records: WeakRef<object>[] = [];
  let [watches, ended] = [0, 0];
  const feed: ChangeFeed = {
    position: async () => 3,
    async read({ after }) {
      const changes = [1, 2, 3].slice(after).map((position): Change => {
        const record = { id: position, name: 'Ann', version: 1 };
        records.push(new WeakRef(record));
        return { position, type: 'user.created', time: '', record, origin: { requestId: 'r' } };
      });
      return { changes, next: 3, more: false };
    },
    watch() {
      watches += 1;
      if (watches > 1) throw new Error('cannot watch');
      return () => {
        ended += 1;
      };
    },
  };
  const followers = new Followers(feed, 0, (event) => assert.fail(inspect(event)));
  const { signal } = new AbortController();
  const follow = () => followers.follow({ after: 0, limit }, requestOf(signal));
  for await (const text of follow()) if (text.includes('id: 3\n')) break;
  // The reader may still wait for its turn.
  await eventLoop.pause();
  assert.deepEqual([getEventListeners(signal, 'abort').length, ended], [0, 1]);
  assert.ok(records.length >= 3);
  assert.equal(await countKept(records), 0);
  await assert.rejects(follow().next(), /cannot watch/);
  assert.equal(ended, 1);
});
