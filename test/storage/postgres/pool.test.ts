import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { Driver } from '../../../src/storage/postgres/connections.ts';
import { PostgresPool, prepared } from '../../../src/storage/postgres/pool.ts';
import { session, settings } from './fake-session.ts';

interface Statement {
  readonly name?: string;
  readonly text: string;
}

/** A driver whose connections run statements with `query`. `connect` replaces the way to open one. */
function fakeDriver(
  query: (statement: Statement) => Promise<object>,
  connect?: (open: () => object) => Promise<object>,
): Driver {
  const createPool = () => {
    const pool = new EventEmitter();
    const open = () => {
      const client = Object.assign(new EventEmitter(), {
        host: 'host',
        port: 5432,
        query: async (sent: string | Statement) =>
          typeof sent === 'string' ? { rows: [session] } : await query(sent),
        release: () => {},
      });
      pool.emit('connect', client);
      return client;
    };
    return Object.assign(pool, {
      connect: async () => (connect === undefined ? open() : await connect(open)),
      end: async () => {},
      idleCount: 0,
      waitingCount: 0,
      options: {},
    }) as unknown as Pool;
  };
  const createClient = () => assert.fail('there must be no search with one host');
  return { createPool, createClient };
}

/** A pool whose server rejects every statement with a SQLSTATE, and the statements that it received. */
function refusingPool(code: string) {
  const sent: Statement[] = [];
  const warnings: string[] = [];
  const driver = fakeDriver(async (statement) => {
    sent.push(statement);
    throw Object.assign(new Error(code), { code, severity: 'ERROR' });
  });
  return {
    pool: new PostgresPool(driver, settings, (warning) => warnings.push(warning)),
    sent,
    warnings,
  };
}

describe('a failing PostgreSQL statement is sent', () => {
  const faults: readonly [code: string, what: string, reads: number, writes: number][] = [
    ['57P01', 'ended by the server', 2, 1],
    ['25006', 'rejected by a standby', 2, 2],
    ['42P05', 'already prepared by a pooler', 2, 2],
    ['26000', 'not prepared by a pooler', 2, 2],
    ['40001', 'in conflict with another transaction', 6, 6],
    ['57014', 'too slow', 1, 1],
    ['XX000', 'rejected because of a bug', 1, 1],
  ];
  for (const [code, what, reads, writes] of faults) {
    it(`${reads} times as a read and ${writes} times as a write when it was ${what} (${code})`, async () => {
      for (const [kind, times] of [
        ['read', reads],
        ['write', writes],
      ] as const) {
        const { pool, sent } = refusingPool(code);
        await assert.rejects(pool[kind](prepared('SELECT 1'), []), { name: 'DomainError' });
        assert.equal(sent.length, times, kind);
      }
    });
  }

  it('again without a name after a pooler has confused the names, and so are all later statements', async () => {
    const { pool, sent, warnings } = refusingPool('42P05');
    await assert.rejects(pool.read(prepared('SELECT 1'), []));
    await assert.rejects(pool.read(prepared('SELECT 2'), []));
    assert.deepEqual(
      sent.map(({ name, text }) => [name !== undefined, text]),
      [
        [true, 'SELECT 1'],
        [false, 'SELECT 1'],
        [false, 'SELECT 2'],
        [false, 'SELECT 2'],
      ],
    );
    assert.ok(warnings.length > 0);
  });
});

describe('a PostgreSQL read that has waited too long for a connection', () => {
  /** A pool that opens one connection. All others time out. */
  function exhaustedPool() {
    const waits: (() => void)[] = [];
    const running = Promise.withResolvers<object>();
    let hasOne = false;
    const driver = fakeDriver(
      () => running.promise,
      async (open) => {
        if (!hasOne) {
          hasOne = true;
          return open();
        }
        await new Promise<void>((resolve) => waits.push(resolve));
        throw new Error('timeout exceeded when trying to connect');
      },
    );
    const pool = new PostgresPool(driver, settings, () => {});
    const first = pool.read(prepared('SELECT 1'), []);
    const second = pool.read(prepared('SELECT 2'), []);
    return { pool, first, second, waits, answer: () => running.resolve({ rows: [] }) };
  }

  it('fails as unavailable when the database completed no call during that time', async () => {
    const { pool, first, second, waits, answer } = exhaustedPool();
    await nextTurn();
    for (const end of waits) end();
    await assert.rejects(second, { kind: 'unavailable', message: 'the database does not answer in time' });
    answer();
    await first;
    await pool.close();
  });

  it('fails as overloaded when the database completed other calls during that time', async () => {
    const { pool, first, second, waits, answer } = exhaustedPool();
    await nextTurn();
    answer();
    await first;
    for (const end of waits) end();
    await assert.rejects(second, { kind: 'overloaded' });
    await pool.close();
  });
});

it('calls beyond the limit of waiting calls fail as overloaded, or as unavailable while no server is known', async () => {
  let isDown = false;
  const stuck = Promise.withResolvers<object>();
  const driver = fakeDriver(
    () => stuck.promise,
    async (open) => {
      if (isDown) throw new Error('connect ECONNREFUSED');
      return open();
    },
  );
  const pool = new PostgresPool(driver, { ...settings, poolSize: 1, maxWaiting: 1 }, () => {});
  const read = () => pool.read(prepared('SELECT 1'), []);
  const running = [read(), read()];
  await assert.rejects(read(), { kind: 'overloaded' });
  isDown = true;
  await assert.rejects(pool.ping(prepared('SELECT 1')), { kind: 'unavailable' });
  await assert.rejects(read(), { kind: 'unavailable' });
  stuck.resolve({ rows: [] });
  await Promise.all(running);
  await pool.close();
});

it('the name of a prepared statement identifies its text, in every process', () => {
  assert.equal(prepared('SELECT 1').name, 'users-service-e004ebd5b5532a4b85984a62');
  assert.notEqual(prepared('SELECT 1').name, prepared('SELECT 2').name);
});
