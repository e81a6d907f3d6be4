import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { chmod, mkdtemp, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findPostgresBinaries } from './postgres-binaries.ts';
import { PostgresServer, type ServerPlace } from './postgres-server.ts';

/** A PostgreSQL for one test file. */
export interface TestPostgres {
  /** Creates an empty database, or a copy of one without sessions, and resolves to its URL. */
  createDatabase(original?: string): Promise<string>;
  /** Creates an empty schema in the database at a URL, which is 20 times faster. Resolves to its URL. */
  createSchema(database: string): Promise<string>;
  /** Stops the server and removes its files. On an external server, only drops the databases created here. */
  close(): Promise<void>;
}

/** A server that this process started, and so may stop, start and copy. */
export interface OwnPostgres extends TestPostgres {
  readonly server: PostgresServer;
  /** Adds a streaming standby of `server`. */
  createStandby(): Promise<PostgresServer>;
}

/** The server of `TEST_DATABASE_URL` if that is set, or else a new one. */
export async function openTestPostgres(): Promise<TestPostgres> {
  const outside = process.env['TEST_DATABASE_URL'];
  return outside === undefined ? startPostgres() : usePostgres(outside);
}

/** With this password in `TEST_POSTGRES_PASSWORD`, the processes of `npm test` share the data of a new server. */
export function createPassword(): string {
  return `secret-${randomBytes(8).toString('hex')}`;
}

/** Settings for a server with much data. The test servers are small, because many run at a time. */
export const largeServer = { shared_buffers: '2GB', max_wal_size: '8GB' };

/** Starts a new PostgreSQL server in a temporary folder and on a free port. Copies have one system identifier. */
export async function startPostgres(
  settings: ServerPlace['settings'] = {},
  { isCopy = true } = {},
): Promise<OwnPostgres> {
  // Resolve links in the path of the temporary folder, because PostgreSQL requires real paths.
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'users-service-postgres-'));
  await chmod(folder, 0o755);
  const guard = startGuard(folder);
  const servers: PostgresServer[] = [];
  const close = async () => {
    await Promise.all(servers.map((server) => server.stop('immediate')));
    // Each database has 300 files. Removing them with `rm` takes three times the processor time.
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    guard.release();
  };
  try {
    const binaries = await findPostgresBinaries(folder);
    const shared = isCopy ? process.env['TEST_POSTGRES_PASSWORD'] : undefined;
    const server = await PostgresServer.create({
      binaries,
      folder: join(folder, 'primary'),
      password: shared ?? createPassword(),
      ...(shared !== undefined && { copy: join(tmpdir(), 'postgres-data') }),
      settings,
    });
    servers.push(server);
    return {
      server,
      async createDatabase(original) {
        const name = databaseName();
        // Copying files takes a third of the processor time of the default, which writes the copy to the log.
        await server.query(`CREATE DATABASE ${name} TEMPLATE ${templateOf(original)} STRATEGY file_copy`);
        return server.url(name);
      },
      createSchema,
      async createStandby() {
        const standby = await server.createStandby(join(folder, `standby-${servers.length}`));
        servers.push(standby);
        return standby;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function usePostgres(url: string): Promise<TestPostgres> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  const names: string[] = [];
  return {
    async createDatabase(original) {
      const name = databaseName();
      names.push(name);
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${templateOf(original)}`);
      const made = new URL(url);
      made.pathname = `/${name}`;
      return made.href;
    },
    createSchema,
    async close() {
      for (const name of names) await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      await admin.end();
    },
  };
}

async function createSchema(database: string): Promise<string> {
  const name = `schema_${randomBytes(6).toString('hex')}`;
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  await client.query(`CREATE SCHEMA ${name}`);
  await client.end();
  const url = new URL(database);
  url.searchParams.set('options', `-csearch_path=${name}`);
  return url.href;
}

/** Limits of a store that calls do not reach even on a slow machine. */
export const patient = { waitTimeoutMs: 60_000, lockTimeoutMs: 60_000, statementTimeoutMs: 60_000 };

function templateOf(original = '/template1'): string {
  return new URL(original, 'postgres://any').pathname.slice(1);
}

function databaseName(): string {
  return `test_${randomBytes(6).toString('hex')}`;
}

/**
 * Starts a shell that outlives this process, even after kill -9, and then stops its servers and removes its
 * folder. The shell waits for the end of a pipe that only this process keeps open.
 */
export function startGuard(folder: string): { release(): void } {
  const script = `cat >/dev/null
    for file in "$0"/*/data/postmaster.pid; do
      [ -f "$file" ] && kill -QUIT "$(head -n 1 "$file")"
      tries=0
      while [ -f "$file" ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    done
    rm -rf "$0"`;
  const child = spawn('sh', ['-c', script, folder], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  child.unref();
  child.stdin.on('error', () => {});
  if ('unref' in child.stdin && typeof child.stdin.unref === 'function') child.stdin.unref();
  return { release: () => child.stdin.end() };
}
