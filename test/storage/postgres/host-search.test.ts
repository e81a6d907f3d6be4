import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Client } from 'pg';
import { HostSearch } from '../../../src/storage/postgres/host-search.ts';
import type { Hosts } from '../../../src/storage/postgres/hosts.ts';
import { watchAbortListeners } from '../../support/abort-listeners.ts';
import { kindOf } from '../../support/outcome.ts';
import { type CreateClient, session, settings } from './fake-session.ts';

const host = (name: string) => ({ name, url: `postgres://${name}` });
const [a, b, c] = [host('a'), host('b'), host('c')];

type Answer = 'passes' | 'fails' | 'refuses' | 'hangs';

const refusal = Object.assign(new Error('too many connections'), { code: '53300', severity: 'FATAL' });

/** A search among hosts after the first has failed. The function `pass` moves its clock. */
function start(t: TestContext, hosts: Hosts = [a, b, c]) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const answers = new Map<string, Answer>();
  const asked: Record<string, number> = { a: 0, b: 0, c: 0 };
  const createClient: CreateClient = (url) => {
    const { hostname: name } = new URL(url);
    const destroyed = Promise.withResolvers<never>();
    const client = Object.assign(new EventEmitter(), {
      connection: { stream: { destroy: () => destroyed.reject(new Error('Connection terminated')) } },
      async connect() {
        asked[name] = (asked[name] ?? 0) + 1;
        const answer = answers.get(name) ?? 'fails';
        if (answer === 'hangs') await destroyed.promise;
        if (answer === 'refuses') throw refusal;
        if (answer === 'fails') throw new Error('takes no writes');
      },
      query: async () => ({ rows: [session] }),
      end: async () => client.emit('end'),
    });
    return client as unknown as Client;
  };
  const limits = { ...settings, createClient, hosts, waitTimeoutMs: 60_000, pingTimeoutMs: 60_000 };
  const search = new HostSearch(limits);
  t.after(() => search.close());
  search.failure = { cause: new Error('gone') };
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 10) {
      now += 10;
      t.mock.timers.tick(10);
      await nextTurn();
    }
  };
  return { search, answers, asked, pass };
}

describe('the search for a host that accepts writes', () => {
  it('finds a host within 200 ms after it accepts writes, while others hang and requests wait', async (t) => {
    for (const waited of [0, 10, 190, 1_000, 1_990]) {
      await t.test(`after ${waited} ms`, async (step) => {
        const { search, answers, pass } = start(step);
        answers.set('a', 'hangs');
        const request = search.recover();
        await pass(waited);
        assert.notEqual(search.failure, undefined);
        answers.set('c', 'passes');
        await pass(200);
        await request;
        assert.equal(search.current, c);
        assert.equal(search.failure, undefined);
      });
    }
  });

  it('finds a host within 200 ms after it accepts writes, while requests fail and are retried', async (t) => {
    const { search, answers, pass } = start(t);
    let isOver = false;
    const client = async () => {
      while (!isOver && (await kindOf(search.recover())) === 'unavailable');
    };
    const clients = Array.from({ length: 3 }, client);
    await pass(1_050);
    answers.set('b', 'passes');
    await pass(200);
    isOver = true;
    await Promise.all(clients);
    assert.equal(search.current, b);
  });

  it('tries each host at most every 200 ms, no matter how many requests wait', async (t) => {
    const { search, asked, pass } = start(t);
    let isOver = false;
    const client = async () => {
      while (!isOver) await kindOf(search.recover());
    };
    const clients = Array.from({ length: 100 }, client);
    await pass(2_000);
    isOver = true;
    await pass(200);
    await Promise.all(clients);
    for (const [name, times] of Object.entries(asked)) {
      assert.ok(times >= 10 && times <= 12, `${name} was tried ${times} times`);
    }
  });

  it('finds a host that hung as soon as it responds again', async (t) => {
    const { search, answers, pass } = start(t);
    answers.set('a', 'hangs').set('b', 'hangs').set('c', 'hangs');
    const request = search.recover();
    await pass(1_000);
    answers.set('a', 'passes');
    await pass(200);
    await request;
    assert.equal(search.current, a);
    assert.equal(search.failure, undefined);
  });

  it('fails with the reason of each host when none accepts writes', async (t) => {
    const { search } = start(t);
    await assert.rejects(search.recover(), { kind: 'unavailable' });
    const cause = search.failure?.cause;
    assert.ok(cause instanceof Error);
    assert.equal(cause.message, 'a: takes no writes; b: takes no writes; c: takes no writes');
  });

  it('tries the only host again, and lets requests wait for less than 200 ms', async (t) => {
    const { search, answers, asked, pass } = start(t, [a]);
    const cause = new Error('takes no writes');
    await assert.rejects(search.recover(), { kind: 'unavailable', cause });
    const request = search.recover();
    await pass(100);
    assert.equal(asked['a'], 1);
    answers.set('a', 'passes');
    await pass(100);
    await request;
    assert.equal(search.failure, undefined);
  });

  it('lets all requests wait for one of several hosts, although the last search took long', async (t) => {
    const { search, answers, pass } = start(t, [a, b]);
    answers.set('a', 'hangs').set('b', 'hangs');
    const hanging = kindOf(search.recover());
    await pass(60_100);
    assert.equal(await hanging, 'unavailable');
    const requests = [search.recover(), search.recover()];
    answers.set('b', 'passes');
    await pass(200);
    await Promise.all(requests);
    assert.equal(search.current, b);
  });

  it('uses no earlier connection after it has found the same host again among several', async (t) => {
    const { search, answers } = start(t);
    answers.set('a', 'passes');
    await search.recover();
    assert.equal(search.current, a);
    assert.equal(search.generation, 1);
  });

  it('keeps its connections to the only host when it has found it again', async (t) => {
    const { search, answers } = start(t, [a]);
    answers.set('a', 'passes');
    const connection = await search.open();
    await search.recover();
    assert.ok(connection);
    assert.ok(search.isUsable(connection));
  });

  it('uses the connections that were opened after a failure, although another earlier one fails later', async (t) => {
    const { search, answers } = start(t);
    answers.set('a', 'passes');
    const [first, second] = [await search.open(), await search.open()];
    assert.ok(first !== undefined && second !== undefined);
    search.discard(first);
    const next = await search.open();
    search.discard(second);
    assert.equal(next !== undefined && search.isUsable(next), true);
  });

  it('keeps a host that it has found although an earlier attempt to connect to another fails', async (t) => {
    const { search, answers, pass } = start(t);
    answers.set('a', 'hangs').set('b', 'passes');
    const earlier = search.open();
    await pass(10);
    await search.recover();
    t.mock.timers.tick(60_000);
    assert.equal(await earlier, undefined);
    assert.equal(search.failure, undefined);
    answers.set('b', 'fails');
    assert.equal(await search.open(), undefined);
    assert.notEqual(search.failure, undefined);
  });

  it('searches for another host if one refuses connections, and none that is open can be used', async (t) => {
    const { search, answers } = start(t, [a, b]);
    answers.set('a', 'passes').set('b', 'passes');
    const connection = await search.open();
    assert.ok(connection);
    answers.set('a', 'refuses');
    await assert.rejects(search.open(), { kind: 'unavailable', cause: refusal });
    search.discard(connection);
    assert.equal(await search.open(), undefined);
    assert.equal(search.failure?.cause, refusal);
    await search.recover();
    assert.equal(search.current, b);
  });

  it('does not take a host for serving because of a connection that was lost', async (t) => {
    const { search, answers } = start(t);
    answers.set('a', 'passes');
    const connection = await search.open();
    assert.ok(connection);
    connection.succeededAt = 1;
    assert.ok(search.isServing(0));
    search.discard(connection);
    assert.ok(!search.isServing(0));
  });

  it('forgets a connection that has ended', async (t) => {
    const { search, answers } = start(t);
    answers.set('a', 'passes');
    const [lost, open] = [await search.open(), await search.open()];
    assert.ok(lost && open);
    const ends = [lost, open].map(({ client }) => t.mock.method(client, 'end').mock);
    lost.client.emit('end');
    await search.close();
    assert.deepEqual(
      ends.map((mock) => mock.callCount()),
      [0, 1],
    );
  });

  it('asks a read-only host again only for connections that were opened since', async (t) => {
    const { search, answers, asked, pass } = start(t);
    answers.set('a', 'passes');
    const connection = await search.open();
    assert.ok(connection);
    const confirmed = search.confirmReadOnly(connection);
    await pass(10);
    await confirmed;
    assert.equal(search.confirmReadOnly(connection), undefined);
    assert.equal(asked['a'], 2);
  });

  it('checks no host while none is known to work', async (t) => {
    const { search, asked, pass } = start(t);
    search.check();
    await pass(10);
    assert.deepEqual(asked, { a: 0, b: 0, c: 0 });
  });

  it('leaves no listener at a signal after searches and a check', async (t) => {
    const { search, answers, pass } = start(t);
    const listeners = watchAbortListeners(t);
    answers.set('b', 'passes');
    for (let round = 0; round < 2; round += 1) {
      search.failure = { cause: new Error('gone') };
      const found = search.recover(new AbortController().signal);
      await pass(200);
      await found;
    }
    search.check();
    await pass(10);
    const left = listeners();
    assert.ok(left.length > 3, `${left.length} signals were used`);
    assert.deepEqual(new Set(left), new Set([0]));
  });

  it('cancels hanging attempts when the store is closed', async (t) => {
    const { search, answers } = start(t);
    answers.set('a', 'hangs');
    const request = kindOf(search.recover());
    await nextTurn();
    await search.close();
    assert.equal(await request, 'unavailable');
  });
});
