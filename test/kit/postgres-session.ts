import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** A session of the test's own, beside those of the store. */
export interface Session {
  /** Sends a statement and resolves to its rows. */
  query<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>;
  /** Locks a table until `unlock`: every statement on it waits. */
  lock(table: string): Promise<void>;
  unlock(): Promise<void>;
  /** Resolves, to the milliseconds it took, when so many sessions of the store wait for a lock. */
  untilBlocked(sessions: number): Promise<number>;
  /** Process ids of the store's sessions. */
  backends(): Promise<number[]>;
}

export async function openSession(t: TestContext, url: string): Promise<Session> {
  const client = await connect(t, url);
  // A transaction sees the sessions as they were when it first looked.
  const observer = await connect(t, url);
  const query: Session['query'] = async (sql, values) => (await client.query(sql, values)).rows;
  const others = `FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'test'`;
  return {
    query,
    async lock(table) {
      await query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
    },
    async unlock() {
      await query('ROLLBACK');
    },
    async untilBlocked(sessions) {
      const blocked = `SELECT pid ${others} AND wait_event_type = 'Lock'`;
      return until(
        async () => (await observer.query(blocked)).rows.length === sessions,
        `${sessions} sessions wait for a lock`,
      );
    },
    async backends() {
      const { rows } = await observer.query<{ pid: number }>(`SELECT pid ${others} ORDER BY pid`);
      return rows.map(({ pid }) => pid);
    },
  };
}

async function connect(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'test' });
  client.on('error', () => {});
  await client.connect();
  t.after(() => client.end());
  return client;
}

/** Resolves to the milliseconds until a condition holds that no event tells. */
export async function until(
  condition: () => Promise<boolean>,
  what: string,
  limitMs = 10_000,
): Promise<number> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > limitMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await delay(5);
  }
  return performance.now() - start;
}
