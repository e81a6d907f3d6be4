import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it } from 'node:test';
import type { Pool } from 'pg';
import { PostgresPool, prepared } from '../../../src/storage/postgres/pool.ts';

const settings = {
  poolSize: 10,
  maxWaiting: 10,
  waitTimeoutMs: 1_000,
  statementTimeoutMs: 1_000,
  lockTimeoutMs: 1_000,
  idleInTransactionTimeoutMs: 1_000,
  pingTimeoutMs: 1_000,
  writable: true,
  hosts: [{ name: 'host:5432', url: 'postgres://host' }] as const,
};
const session = {
  own: true,
  read_only: 'off',
  synchronous_commit: 'on',
  fsync: 'on',
  full_page_writes: 'on',
};

/** A pool whose server refuses every statement with a SQLSTATE, and what it was sent. */
function refusingPool(code: string) {
  const sent: { readonly name?: string; readonly text: string }[] = [];
  const warnings: string[] = [];
  const createPool = () => {
    const pool = new EventEmitter();
    const connect = async () => {
      const query = async (statement: string | { text: string }) => {
        if (typeof statement === 'string') return { rows: [session] };
        sent.push(statement);
        throw Object.assign(new Error(code), { code, severity: 'ERROR' });
      };
      const client = Object.assign(new EventEmitter(), {
        host: 'host',
        port: 5432,
        query,
        release: () => {},
      });
      pool.emit('connect', client);
      return client;
    };
    return Object.assign(pool, {
      connect,
      end: async () => {},
      idleCount: 0,
      options: {},
    }) as unknown as Pool;
  };
  return {
    pool: new PostgresPool(createPool, settings, (warning) => warnings.push(warning)),
    sent,
    warnings,
  };
}

describe('a statement that fails is sent', () => {
  const faults: readonly [code: string, what: string, reads: number, writes: number][] = [
    ['57P01', 'ended by the server', 2, 1],
    ['25006', 'refused by a standby', 2, 2],
    ['42P05', 'that a pooler has prepared already', 2, 2],
    ['26000', 'that a pooler has not prepared', 2, 2],
    ['40001', 'after a conflict', 6, 6],
    ['57014', 'that took too long', 1, 1],
    ['XX000', 'because of a bug', 1, 1],
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

  it('again without a name once a pooler has mixed up the names, and so are all others', async () => {
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

it('a name stands for one text, and the same one in every process', () => {
  assert.equal(prepared('SELECT 1').name, 'users-service-e004ebd5b5532a4b85984a62');
  assert.notEqual(prepared('SELECT 1').name, prepared('SELECT 2').name);
});
