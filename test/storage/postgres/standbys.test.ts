import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { DomainError, unlessAborted } from '../../../src/domain/errors.ts';
import type { Store } from '../../../src/domain/repository.ts';
import type { Connection, Send } from '../../../src/storage/postgres/connection.ts';
import type { PostgresPool } from '../../../src/storage/postgres/pool.ts';
import { type StandbyRead, standbyReads } from '../../../src/storage/postgres/standbys.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { openForwarder } from '../../kit/forwarder.ts';
import { startPostgres } from '../../kit/postgres.ts';
import type { PostgresServer } from '../../kit/postgres-server.ts';
import { until } from '../../kit/until.ts';
import { send } from '../../support/client.ts';
import { closeAfter } from '../../support/close-after.ts';
import { startService } from '../../support/service.ts';
import { failuresOfMicrotasks } from '../microtasks.ts';

it('reads from standbys', async (all) => {
  const postgres = await startPostgres();
  all.after(() => postgres.close());
  const primary = postgres.server;
  const [quick, slow] = [await postgres.createStandby(), await postgres.createStandby()];
  const database = new URL(await postgres.createDatabase()).pathname.slice(1);

  function urlOf(...hosts: readonly PostgresServer[]): string {
    const url = new URL(primary.url(database));
    return url.href.replace(url.host, hosts.map(({ port }) => `127.0.0.1:${port}`).join(','));
  }

  async function open(t: TestContext, url: string, standbys: string) {
    const reads: StandbyRead[] = [];
    const store = await openPostgresStore(url, {
      readDatabase: standbys,
      onStandbyRead: (read) => reads.push(read),
    });
    t.after(() => store.close());
    const outcomes = () => [...new Set(reads.map(({ host, outcome }) => `${host.split(':')[1]} ${outcome}`))];
    // On a slow machine a standby may lag, and is then not used for a second.
    async function untilAnswered(
      id: number,
      ...servers: readonly { readonly port: number }[]
    ): Promise<void> {
      await until(async () => {
        await store.users.get(id);
        return servers.every(({ port }) => outcomes().includes(`${port} answered`));
      }, 'each standby answers a read');
    }
    return { store, reads, outcomes, untilAnswered };
  }

  async function set(server: PostgresServer, name: string, value: string): Promise<void> {
    await server.query(`ALTER SYSTEM SET ${name} = '${value}'`);
    await server.query('SELECT pg_reload_conf()');
    await until(async () => {
      const [row] = await server.query<{ value: string }>(`SELECT current_setting($1) AS value`, [name]);
      return row?.value === value;
    }, `${name} is ${value}`);
  }

  const create = async (store: Store, name: string) => (await store.users.create({ name })).value.id;

  await all.test('return every write that another store acknowledged before', async (t) => {
    const writer = await open(t, urlOf(primary), urlOf(quick, slow));
    const { store, untilAnswered } = await open(t, urlOf(primary), urlOf(quick, slow));
    for (let round = 0; round < 100; round += 1) {
      const id = await create(writer.store, `user ${round}`);
      assert.equal((await store.users.get(id))?.name, `user ${round}`);
      const { items } = await store.users.list({
        filter: { id: [id] },
        sort: [{ field: 'id', descending: false }],
        limit: 1,
        start: { offset: 0 },
      });
      assert.equal(items.length, 1);
    }
    await untilAnswered(1, quick, slow);
  });

  await all.test('return all changes of the feed', async (t) => {
    const { store, reads } = await open(t, urlOf(primary), urlOf(quick));
    await until(async () => {
      const after = (await store.changes?.position()) ?? 0;
      const id = await create(store, 'followed');
      const page = await store.changes?.read({ after, limit: 10 });
      const ids = page?.changes.map(({ record }) => record.id);
      assert.deepEqual(ids, [id]);
      return reads.filter(({ outcome }) => outcome === 'answered').length >= 20;
    }, 'the standby completes 20 reads');
  });

  await all.test('use another server while a standby lags, and avoid that standby for a while', async (t) => {
    await set(slow, 'recovery_min_apply_delay', '1min');
    t.after(() => set(slow, 'recovery_min_apply_delay', '0'));
    const { store, outcomes, reads } = await open(t, urlOf(primary), urlOf(slow));
    const id = await create(store, 'late');
    // On a slow machine, a read may give up before it has a connection.
    await until(async () => {
      assert.equal((await store.users.get(id))?.name, 'late');
      return (reads.at(-1)?.lagBytes ?? 0) > 0;
    }, 'the standby reports its position');
    assert.deepEqual(outcomes(), [`${slow.port} late`]);
    const waitMs = reads.at(-1)?.waitMs ?? 0;
    assert.ok(waitMs >= 90, `the read waited for ${waitMs} ms, not 100 ms`);
    reads.length = 0;
    assert.equal((await store.users.get(id))?.name, 'late');
    assert.deepEqual(outcomes(), [`${slow.port} skipped`], 'the standby must not be used again at once');
  });

  await all.test('use the primary while a standby is down, and then the standby again', async (t) => {
    const { store, reads, untilAnswered } = await open(t, urlOf(primary), urlOf(quick));
    const id = await create(store, 'Ada');
    await untilAnswered(id, quick);
    await quick.stop('immediate');
    // On a slow machine, a ping may find it before a read does.
    await until(async () => {
      assert.equal((await store.users.get(id))?.name, 'Ada');
      return reads.at(-1)?.outcome === 'skipped';
    }, 'the standby is found to be down');
    await quick.start();
    await until(async () => {
      reads.length = 0;
      assert.equal((await store.users.get(id))?.name, 'Ada');
      return reads[0]?.outcome === 'answered';
    }, 'the standby responds again');
  });

  /** Opens a store with one user and a standby, which has answered a read and now hangs. */
  async function openHanging(t: TestContext) {
    const forwarder = closeAfter(t, await openForwarder(quick.port));
    const way = quick.url(database, forwarder.port);
    const { store, reads, untilAnswered } = await open(t, urlOf(primary), way);
    const id = await create(store, 'Ada');
    await untilAnswered(id, forwarder);
    forwarder.freeze();
    return { store, reads, id, forwarder };
  }

  await all.test('use the primary while a standby hangs, and then the standby again', async (t) => {
    const { store, reads, id, forwarder } = await openHanging(t);
    const startedAt = performance.now();
    assert.equal((await store.users.get(id))?.name, 'Ada');
    // The standby has 1.1 s. Without this limit, the read would end after 11 s.
    assert.ok(performance.now() - startedAt < 8_000);
    forwarder.thaw();
    await until(async () => {
      reads.length = 0;
      assert.equal((await store.users.get(id))?.name, 'Ada');
      return reads[0]?.outcome === 'answered';
    }, 'the standby responds again');
  });

  await all.test('end on the primary if the store closes while a standby hangs', async (t) => {
    const { store, id } = await openHanging(t);
    const sort = [{ field: 'id', descending: false }] as const;
    const listed = store.posts(id).list({ filter: {}, sort, limit: 1, start: { offset: 0 } });
    await store.close();
    // After the list, which is empty, the store looks for the user.
    assert.deepEqual((await listed)?.items, []);
  });

  await all.test('skip a host that is not a standby', async (t) => {
    const { store, outcomes } = await open(t, urlOf(primary), urlOf(primary));
    const id = await create(store, 'Ada');
    await until(async () => {
      assert.equal((await store.users.get(id))?.name, 'Ada');
      return outcomes().includes(`${primary.port} failed`);
    }, 'the host is found to be no standby');
    assert.ok(!outcomes().includes(`${primary.port} answered`));
  });

  await all.test('need no rights except those on the tables', async (t) => {
    await primary.query(`CREATE ROLE reader LOGIN PASSWORD 'secret' IN ROLE pg_read_all_data`);
    const { store } = await open(t, urlOf(primary), urlOf(quick));
    const id = await create(store, 'Ada');
    const asReader = (url: string) => url.replace(/\/\/.*@/, '//reader:secret@');
    const { store: reader, untilAnswered } = await open(t, urlOf(primary), asReader(urlOf(quick)));
    await until(async () => (await reader.users.get(id))?.name === 'Ada', 'the role exists on the standby');
    await untilAnswered(id, quick);
  });

  await all.test('never use a standby of another cluster', async (t) => {
    const other = closeAfter(t, await startPostgres({}, { isCopy: false }));
    await other.server.query(`CREATE DATABASE ${database}`);
    const foreign = await openPostgresStore(other.server.url(database));
    for (const name of ['foreign', 'last']) await create(foreign, name);
    await foreign.close();
    const standby = await other.createStandby();
    const lsnOf = async (server: PostgresServer) => {
      const lsn = 'CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END';
      const [row] = await server.query<{ bytes: string }>(`SELECT ${lsn} - '0/0' AS bytes`);
      return Number(row?.bytes);
    };
    const isLonger = async () => {
      await other.server.query(`SELECT pg_logical_emit_message(true, 'test', repeat('x', 1000000))`);
      return (await lsnOf(standby)) > (await lsnOf(primary)) + 1_000_000;
    };
    await until(isLonger, 'the log of the other cluster is longer', 60_000);
    const { store, outcomes } = await open(t, urlOf(primary), standby.url(database));
    const id = await create(store, 'Ada');
    assert.equal((await store.users.get(id))?.name, 'Ada');
    assert.deepEqual(outcomes(), [`${standby.port} late`]);
  });

  const inSchema = (url: string, schema: string) => `${url}?options=-csearch_path%3D${schema}`;
  const places: readonly [what: string, open: () => Promise<string>][] = [
    ['database', async () => new URL(await postgres.createDatabase()).pathname.slice(1)],
    [
      'schema',
      async () => {
        await primary.query('CREATE SCHEMA elsewhere', [], database);
        return inSchema(database, 'elsewhere');
      },
    ],
  ];
  for (const [what, createPlace] of places) {
    await all.test(`never use another ${what} that has the tables of a service`, async (t) => {
      const path = await createPlace();
      await (await openPostgresStore(primary.url(path))).close();
      const find = `SELECT FROM pg_class WHERE oid = to_regclass('change_feed')`;
      await until(
        async () => (await quick.query(find, [], path).catch(() => [])).length === 1,
        'the standby has the other tables',
      );
      const { store, outcomes } = await open(t, urlOf(primary), quick.url(path));
      const id = await create(store, 'Ada');
      await until(async () => {
        assert.equal((await store.users.get(id))?.name, 'Ada');
        return outcomes().includes(`${quick.port} skipped`);
      }, 'the standby is compared with the primary');
      assert.deepEqual(outcomes(), [`${quick.port} late`, `${quick.port} skipped`]);
    });
  }

  await all.test('use a standby as soon as it has replayed the creation of the tables', async (t) => {
    await set(slow, 'recovery_min_apply_delay', '1min');
    t.after(() => set(slow, 'recovery_min_apply_delay', '0'));
    await primary.query('CREATE SCHEMA late', [], database);
    const [writes, standbys] = [urlOf(primary), urlOf(slow)].map((url) => inSchema(url, 'late'));
    const { store, reads, outcomes, untilAnswered } = await open(t, String(writes), String(standbys));
    const id = await create(store, 'Ada');
    await until(async () => {
      assert.equal((await store.users.get(id))?.name, 'Ada');
      return (reads.at(-1)?.lagBytes ?? 0) > 0;
    }, 'the standby reports its position');
    assert.deepEqual(outcomes(), [`${slow.port} late`]);
    await set(slow, 'recovery_min_apply_delay', '0');
    await untilAnswered(id, slow);
  });

  await all.test('are counted in the metrics of a service', async (t) => {
    const { http } = await startService(t, { database: urlOf(primary), readDatabase: urlOf(quick) });
    await send(http, 'POST /users', { json: { name: 'Ada' } });
    const host = `host="127.0.0.1:${quick.port}"`;
    const answered = new RegExp(`^users_service_standby_reads_total{${host},outcome="answered"} 1$`, 'm');
    let text = '';
    await until(async () => {
      await send(http, 'GET /users');
      ({ text } = await send(http, 'GET /metrics'));
      return answered.test(text);
    }, 'a read from the standby is counted');
    assert.match(text, new RegExp(`^users_service_standby_wait_seconds_total{${host}} [\\d.e-]+$`, 'm'));
    assert.match(text, new RegExp(`^users_service_standby_lag_bytes_total{${host}} \\d+$`, 'm'));
  });

  await all.test('never use a standby whose history differs from that of the primary', async (t) => {
    // `slow` lags and is promoted. `quick` has more of the log, with a write that the old primary loses.
    await set(slow, 'primary_conninfo', '');
    for (let round = 0; round < 20; round += 1) {
      await primary.query(`SELECT pg_logical_emit_message(true, 'test', repeat('x', 100000))`);
    }
    await until(async () => {
      const sql = 'SELECT pg_current_wal_lsn()::text AS lsn';
      const [at] = await primary.query<{ lsn: string }>(sql);
      const [row] = await quick.query<{ there: boolean }>(
        'SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS there',
        [at?.lsn],
      );
      return row?.there === true;
    }, 'the standby has all changes');
    await primary.stop('immediate');
    await slow.promote();
    await until(async () => {
      const [row] = await slow.query<{ mode: string }>(
        `SELECT current_setting('transaction_read_only') AS mode`,
      );
      return row?.mode === 'off';
    }, 'the new primary accepts writes');
    const { store, outcomes } = await open(t, urlOf(slow), urlOf(quick));
    const id = await create(store, 'after');
    assert.equal((await store.users.get(id))?.name, 'after');
    assert.deepEqual(outcomes(), [`${quick.port} late`]);
  });
});

/** A pool that passes each statement to `send`. */
function fakePool(send: Send, ping = async () => {}) {
  const connection = {} as Connection;
  return {
    reads: <T>(work: (send: Send, connection: Connection) => Promise<T>, signal?: AbortSignal) =>
      unlessAborted(work(send, connection), signal),
    ping,
  };
}

describe('a read from a standby', () => {
  const place = { history: '1/1', bytes: 100 };
  const primary = {
    read: async <Row extends object>({ text }: { text: string }) =>
      [text.includes('flush') ? place : { from: 'primary' }] as unknown as Row[],
  };
  function open({ known = true, ping = async () => {} }) {
    const [sent, query] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const outcomes: string[] = [];
    const send: Send = async <Row>({ text }: { text: string }) => {
      if (text === 'query') sent.resolve();
      if (text === 'query' || !known) await query.promise;
      return [text === 'query' ? { from: 'standby' } : place] as Row[];
    };
    const standby = { host: 'h:1', pool: fakePool(send, ping) };
    const reads = standbyReads(primary, [standby], ({ outcome }) => outcomes.push(outcome));
    const read = (signal?: AbortSignal) => reads.read({ text: 'query' }, [], signal);
    return { read, outcomes, sent, query };
  }

  it('succeeds while a test of the host mocks its timers', async (t) => {
    // As in Vitest and Jest: not disposable.
    t.mock.method(globalThis, 'setInterval', () => ({ unref() {} }));
    const { read, outcomes, query } = open({});
    query.resolve();
    assert.deepEqual(await read(), [{ from: 'standby' }]);
    assert.deepEqual(outcomes, ['answered']);
  });

  it('does not fail when the function that receives its outcome does', async (t) => {
    const failures = failuresOfMicrotasks(t);
    const failure = new Error('the outcome cannot be received');
    const standby = { host: 'h:1', pool: fakePool(async <Row>() => [place] as Row[]) };
    const reads = standbyReads(primary, [standby], () => {
      throw failure;
    });
    assert.deepEqual(await reads.read({ text: 'query' }, []), [place]);
    assert.deepEqual([...failures], [failure]);
  });

  it('counts each standby that is skipped, also if another one serves the read', async () => {
    const reads: StandbyRead[] = [];
    const respond = async <Row>({ text }: { text: string }) =>
      [text === 'query' ? { from: 'standby' } : place] as Row[];
    const healthy = { host: 'up:1', pool: fakePool(respond) };
    const failing = async () => {
      throw new Error('down');
    };
    const down = { host: 'down:1', pool: fakePool(failing, failing) };
    const { read } = standbyReads(primary, [healthy, down], (outcome) => reads.push(outcome));
    for (let i = 0; i < 10; i += 1) await read({ text: 'query' }, []);
    const counts = Object.groupBy(reads, ({ host, outcome }) => `${host} ${outcome}`);
    assert.equal(counts['down:1 failed']?.length, 1);
    assert.deepEqual([counts['up:1 answered']?.length, counts['down:1 skipped']?.length], [9, 9]);
  });

  it('goes on while the standby responds to pings', async () => {
    let pings = 0;
    const ping = async () => {
      pings += 1;
      if (pings === 2) query.resolve();
    };
    const { read, outcomes, query } = open({ ping });
    assert.deepEqual(await read(), [{ from: 'standby' }]);
    assert.deepEqual(outcomes, ['answered']);
  });

  it('goes to the primary if the standby does not respond to a ping, and later reads do so at once', async () => {
    const ping = () => Promise.reject(new Error('no response'));
    const { read, outcomes } = open({ ping });
    assert.deepEqual(await read(), [{ from: 'primary' }]);
    assert.deepEqual(await read(), [{ from: 'primary' }]);
    assert.deepEqual(outcomes, ['failed', 'skipped']);
  });

  it('is late once if the standby neither reports its position nor responds to a ping', async () => {
    const ping = () => Promise.reject(new Error('no response'));
    const { read, outcomes } = open({ known: false, ping });
    for (let i = 0; i < 2; i += 1) assert.deepEqual(await read(), [{ from: 'primary' }]);
    assert.deepEqual(outcomes, ['late', 'skipped']);
  });

  it('is preceded by at most one ping a second while the standby does not respond', async (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const ping = t.mock.fn(() => Promise.reject(new Error('no response')));
    const { read, outcomes } = open({ ping });
    await read();
    now = 1_000;
    for (let i = 0; i < 2; i += 1) {
      await read();
      await nextTurn();
    }
    assert.deepEqual(outcomes, ['failed', 'skipped', 'skipped']);
    assert.equal(ping.mock.callCount(), 2);
  });

  it('leaves no listener at the signal of its client', async () => {
    const { read, query } = open({});
    const { signal } = new AbortController();
    query.resolve();
    assert.deepEqual(await read(signal), [{ from: 'standby' }]);
    assert.deepEqual(getEventListeners(signal, 'abort'), []);
  });

  it('has no outcome if its client leaves', async () => {
    const { read, outcomes, sent } = open({});
    const ending = new AbortController();
    const left = assert.rejects(read(ending.signal), { name: 'DomainError' });
    await sent.promise;
    ending.abort();
    await left;
    assert.deepEqual(outcomes, []);
  });

  it('does not go to the primary after the limit of its statement, and does not cost the standby later reads', async () => {
    const { read, outcomes, query } = open({});
    query.promise.catch(() => {});
    query.reject(new DomainError('deadline-exceeded', 'the database took too long'));
    for (let i = 0; i < 2; i += 1) await assert.rejects(read(), { kind: 'deadline-exceeded' });
    assert.deepEqual(outcomes, []);
  });

  it('ends on a standby that lags when the primary serves it', async () => {
    const working: Promise<unknown>[] = [];
    let asked = 0;
    const answer: Send = async <Row>() => {
      asked += 1;
      if (asked === 1_000) throw new Error('it still asks for the position after 100 ms');
      return [{ ...place, bytes: 99 }] as Row[];
    };
    const pool = {
      ...fakePool(answer),
      reads<T>(work: (send: Send, connection: Connection) => Promise<T>, signal?: AbortSignal) {
        const running = work(answer, {} as Connection);
        working.push(running);
        return unlessAborted(running, signal);
      },
    };
    const { read } = standbyReads(primary, [{ host: 'h:1', pool }]);
    assert.deepEqual(await read({ text: 'query' }, []), [{ from: 'primary' }]);
    await assert.rejects(Promise.all(working), { kind: 'cancelled' });
  });

  it('waits again if another attempt finds a restarted standby, which is behind', async () => {
    const positions = [100, 99, 100];
    const sent: unknown[] = [];
    const answer: Send = async <Row>({ text }: { text: string }) => {
      const isQuery = text === 'query';
      sent.push(isQuery ? text : positions[0]);
      if (isQuery && positions.length === 2) throw new Error('the connection was lost');
      return [isQuery ? { from: 'standby' } : { ...place, bytes: positions.shift() }] as Row[];
    };
    const pool = {
      ...fakePool(answer),
      reads: <T>(work: (send: Send, connection: Connection) => Promise<T>) =>
        work(answer, {} as Connection).catch(() => work(answer, {} as Connection)),
    };
    const { read } = standbyReads(primary, [{ host: 'h:1', pool }]);
    assert.deepEqual(await read({ text: 'query' }, []), [{ from: 'standby' }]);
    assert.deepEqual(sent, [100, 'query', 99, 100, 'query']);
  });

  it('goes to the primary if the standby does not report its position in time', async () => {
    const { read, outcomes } = open({ known: false });
    for (let i = 0; i < 2; i += 1) assert.deepEqual(await read(), [{ from: 'primary' }]);
    assert.deepEqual(outcomes, ['late', 'late']);
  });
});

describe('the query for the log position of a standby', () => {
  it('is sent again on a connection only after the primary has gone beyond the known position', async () => {
    let written = 100;
    const place = () => ({ history: '1/1', bytes: written });
    const sent: string[] = [];
    const answer: Send = async <Row>({ text }: { text: string }) => {
      sent.push(text.includes('replay') ? 'place' : text);
      return [place()] as Row[];
    };
    const primary = { read: async <Row>() => [place()] as Row[] };
    const pool = fakePool(answer);
    const reads = standbyReads(primary, [{ host: 'h:1', pool }]);
    await reads.read({ text: 'first' }, []);
    await reads.read({ text: 'second' }, []);
    written += 1;
    await reads.read({ text: 'third' }, []);
    assert.deepEqual(sent, ['place', 'first', 'second', 'place', 'third']);
  });
});

describe('a read of the feed of changes', () => {
  it('uses the connections of the feed on the standby, and on the primary when the standby fails', async () => {
    const used: unknown[] = [];
    const rows = async <Row>() => [{ history: '1/1', bytes: 100 }] as Row[];
    const primary = {
      read<Row>(...[{ text }, , , purpose]: Parameters<PostgresPool['read']>) {
        if (text === 'page') used.push(['primary', purpose]);
        return rows<Row>();
      },
    };
    const pool = {
      ...fakePool(rows),
      reads(_work: unknown, _signal?: AbortSignal, purpose?: string) {
        used.push(['standby', purpose]);
        return Promise.reject(new Error('the standby is down'));
      },
    };
    await standbyReads(primary, [{ host: 'h:1', pool }]).read({ text: 'page' }, [], undefined, 'feed');
    assert.deepEqual(used, [
      ['standby', 'feed'],
      ['primary', 'feed'],
    ]);
  });
});

describe('the query for the end of the log', () => {
  it('is not sent for a second after it failed, and each read that the primary serves instead is counted', async () => {
    let asked = 0;
    const primary = {
      async read<Row>({ text }: { text: string }) {
        if (text === 'page') return [{ from: 'the primary' }] as Row[];
        asked += 1;
        throw new DomainError('internal', 'permission denied for function pg_control_system');
      },
    };
    const outcomes: string[] = [];
    const standby = { host: 'h:1', pool: fakePool(async () => []) };
    const reads = standbyReads(primary, [standby], ({ outcome }) => outcomes.push(outcome));
    for (let i = 0; i < 3; i += 1) {
      assert.deepEqual(await reads.read({ text: 'page' }, []), [{ from: 'the primary' }]);
    }
    assert.deepEqual(outcomes, ['failed', 'skipped', 'skipped']);
    assert.equal(asked, 1);
  });

  it('is shared by the reads that arrive before it is sent, and by no later read', async () => {
    const questions: PromiseWithResolvers<void>[] = [];
    const place = { history: '1/1', bytes: 100 };
    const primary = {
      async read<Row>(...[, , , purpose]: Parameters<PostgresPool['read']>) {
        assert.equal(purpose, 'feed', 'a connection for calls may have to wait for writes');
        const question = Promise.withResolvers<void>();
        questions.push(question);
        await question.promise;
        return [place] as Row[];
      },
    };
    const answer: Send = async <Row>() => [place] as Row[];
    const pool = fakePool(answer);
    const reads = standbyReads(primary, [{ host: 'h:1', pool }], () => undefined);
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const first = Array.from({ length: 50 }, () => reads.read({ text: 'SELECT' }, []));
    await turn();
    await turn();
    assert.equal(questions.length, 1);
    const later = [reads.read({ text: 'SELECT' }, []), reads.read({ text: 'SELECT' }, [])];
    await turn();
    assert.equal(questions.length, 1, 'two queries run at a time');
    questions[0]?.resolve();
    await Promise.all(first);
    await turn();
    assert.equal(questions.length, 2);
    questions[1]?.resolve();
    await Promise.all(later);
  });
});
