import type { TestContext } from 'node:test';
import pg from 'pg';
import { until } from './until.ts';

/** A session of the test, in addition to those of the store. */
export interface Session {
  /** Sends a statement and resolves to its rows. */
  query<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>;
  /** Changes the database of the session, such as `SET fsync = off`, for sessions that begin later. */
  alterDatabase(change: string): Promise<void>;
  /** Locks a table until `unlock`, so that every statement on it waits. */
  lock(table: string): Promise<void>;
  unlock(): Promise<void>;
  /** Resolves when this number of sessions of the store wait for a lock, to the elapsed milliseconds. */
  untilBlocked(sessions: number): Promise<number>;
  /** The process ids of the sessions of the store. */
  backends(): Promise<number[]>;
}

export async function openSession(t: TestContext, url: string): Promise<Session> {
  const client = await connect(t, url);
  const query: Session['query'] = async (sql, values) => (await client.query(sql, values)).rows;
  let observer: Promise<pg.Client> | undefined;
  // Within one transaction, the list of sessions does not change after its first read.
  const observe = async (sql: string): Promise<{ pid: number }[]> => {
    observer ??= connect(t, url);
    return (await (await observer).query(sql)).rows;
  };
  // Autovacuum connects to the database too.
  const others = `FROM pg_stat_activity WHERE datname = current_database()
    AND application_name <> 'test' AND backend_type = 'client backend'`;
  return {
    query,
    async alterDatabase(change) {
      await query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} ${change}`);
    },
    async lock(table) {
      await query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
    },
    async unlock() {
      await query('ROLLBACK');
    },
    async untilBlocked(sessions) {
      const blocked = `SELECT pid ${others} AND wait_event_type = 'Lock'`;
      return until(
        async () => (await observe(blocked)).length === sessions,
        `${sessions} sessions wait for a lock`,
      );
    },
    async backends() {
      return (await observe(`SELECT pid ${others} ORDER BY pid`)).map(({ pid }) => pid);
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
