import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, chown, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePorts } from './free-ports.ts';
import type { PostgresBinaries } from './postgres-binaries.ts';
import { until } from './until.ts';

const run = promisify(execFile);

/** The folder, the programs and the settings of a server. */
export interface ServerPlace {
  readonly binaries: PostgresBinaries;
  /** Contains only the files of this server. */
  readonly folder: string;
  readonly password: string;
  /** Where servers with this password keep a copy of the data of a new one. */
  readonly copy?: string;
  /** Settings in addition to those of all test servers. */
  readonly settings?: Readonly<Record<string, string>>;
}

// These settings are faster but not durable if the machine crashes, which no test covers.
const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  max_connections: '80',
  shared_buffers: '64MB',
};

/** The copies of data that servers of this process have made or are making. */
const copies = new Map<string, Promise<void>>();

const ready = /database system is ready to accept/;
const portTaken = /could not bind|Address already in use/;

/** A PostgreSQL server on a free port of 127.0.0.1. It keeps the port after a stop and start. */
export class PostgresServer {
  readonly #place: ServerPlace;
  readonly #data: string;
  #port: number | undefined;
  #child: ChildProcess | undefined;

  private constructor(place: ServerPlace) {
    this.#place = place;
    this.#data = join(place.folder, 'data');
  }

  static async create(place: ServerPlace): Promise<PostgresServer> {
    const server = new PostgresServer(place);
    await server.#prepareFolder();
    await server.#prepareData();
    await server.start();
    return server;
  }

  get port(): number {
    if (this.#port === undefined) throw new Error('the server has not been started');
    return this.#port;
  }

  /** The URL of a database. With `port`, the URL of a forwarder to this server. */
  url(database = 'postgres', port = this.port): string {
    return `postgres://postgres:${this.#place.password}@127.0.0.1:${port}/${database}`;
  }

  /** Runs one statement on a new connection. */
  async query<Row extends pg.QueryResultRow>(
    sql: string,
    values: unknown[] = [],
    database = 'postgres',
  ): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url(database) });
    client.on('error', () => {});
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  async start(): Promise<void> {
    const isRestart = this.#port !== undefined;
    const isStarted = async () => {
      this.#port ??= (await freePorts(1))[0];
      const log = await this.#launch();
      if (log === undefined) return true;
      if (!portTaken.test(log)) throw new Error(`PostgreSQL did not start:\n${log}`);
      // Clients know the port of a server that restarts.
      if (!isRestart) this.#port = undefined;
      return false;
    };
    await until(isStarted, 'PostgreSQL starts on a free port', 20_000, 100);
  }

  /** `fast` ends sessions with 57P01 and shuts down cleanly. `immediate` simulates a crash. */
  async stop(mode: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const exited = once(child, 'exit');
    child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await exited;
  }

  /** Ends every session of a database, and resolves to their number. */
  async terminateBackends(database: string): Promise<number> {
    const sql = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1';
    return (await this.query(sql, [database])).length;
  }

  /** Creates a streaming standby by a copy of the running server, because pg_basebackup is missing. */
  async createStandby(folder: string): Promise<PostgresServer> {
    const standby = new PostgresServer({ ...this.#place, folder });
    await standby.#prepareFolder();
    const client = new pg.Client({ connectionString: this.url() });
    await client.connect();
    await client.query(`SELECT pg_backup_start('standby', true)`);
    await run('cp', ['-a', this.#data, standby.#data]);
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    await client.end();
    for (const left of ['postmaster.pid', 'postmaster.opts']) await rm(join(standby.#data, left));
    // The standby streams missing parts of the log. Partly copied segments would confuse it.
    const wal = join(standby.#data, 'pg_wal');
    for (const file of await readdir(wal, { withFileTypes: true })) {
      if (file.isFile()) await rm(join(wal, file.name));
    }
    const primary = `host=127.0.0.1 port=${this.port} user=postgres password=${this.#place.password}`;
    await appendFile(join(standby.#data, 'postgresql.auto.conf'), `\nprimary_conninfo = '${primary}'\n`);
    await standby.#write(join(standby.#data, 'backup_label'), rows[0]?.labelfile ?? '');
    await standby.#write(join(standby.#data, 'standby.signal'), '');
    await standby.start();
    return standby;
  }

  /** Makes every commit wait for a standby; resolves when one is connected. */
  async commitOnStandby(limitMs = 600_000): Promise<void> {
    await this.query(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await this.query('SELECT pg_reload_conf()');
    const synchronous = `SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`;
    const isConnected = async () => (await this.query(synchronous)).length === 1;
    await until(isConnected, 'the standby is synchronous', limitMs);
    // Commits wait for the standbys that the checkpointer knows, which reads the setting before each checkpoint.
    await this.query('CHECKPOINT');
  }

  /** Promotes a standby, and resolves when it accepts writes. */
  async promote(): Promise<void> {
    await this.query('SELECT pg_promote()');
  }

  /** Resolves to `undefined` when the server accepts connections, or to its log if it exits. */
  async #launch(): Promise<string | undefined> {
    const { binaries, folder } = this.#place;
    const flags = Object.entries({ ...settings, ...this.#place.settings }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ]);
    const child = spawn(binaries.postgres, ['-D', this.#data, '-p', String(this.#port), ...flags], {
      ...binaries.user,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    const started = await new Promise<boolean>((resolve, reject) => {
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-8192);
        if (ready.test(text)) resolve(true);
      });
      child.once('error', reject).once('exit', () => resolve(false));
    });
    if (!started) return log;
    this.#child = child;
    // A test process must also exit without stopping its server. The guard then stops the server.
    child.unref();
    if ('unref' in child.stderr && typeof child.stderr.unref === 'function') child.stderr.unref();
    return undefined;
  }

  async #prepareFolder(): Promise<void> {
    await mkdir(this.#place.folder, { mode: 0o755 });
    await this.#own(this.#place.folder);
  }

  /** Copies the data of a new server, which takes a tenth of the time of making them. */
  async #prepareData(): Promise<void> {
    const { copy } = this.#place;
    if (copy === undefined) return this.#makeData();
    if (!existsSync(copy)) {
      const making = copies.get(copy) ?? this.#makeCopy(copy);
      copies.set(copy, making);
      await making;
    }
    await run('cp', ['-a', copy, this.#data]);
  }

  async #makeCopy(copy: string): Promise<void> {
    await this.#makeData();
    // A server of another process may have been faster.
    await rename(this.#data, copy).catch(() => rm(this.#data, { recursive: true }));
  }

  async #makeData(): Promise<void> {
    const { binaries, folder, password } = this.#place;
    const passwordFile = join(folder, 'password');
    await this.#write(passwordFile, password);
    const flags = ['-U', 'postgres', '-E', 'UTF8', '--locale=C', '--auth=scram-sha-256', '--no-sync'];
    // Tests open thousands of connections, and each derives a key from the password.
    flags.push('--set=scram_iterations=1');
    const options = { ...binaries.user, cwd: folder };
    await run(binaries.initdb, ['-D', this.#data, `--pwfile=${passwordFile}`, ...flags], options);
  }

  async #write(path: string, text: string): Promise<void> {
    await writeFile(path, text, { mode: 0o600 });
    await this.#own(path);
  }

  async #own(path: string): Promise<void> {
    const { user } = this.#place.binaries;
    if (user !== undefined) await chown(path, user.uid, user.gid);
  }
}
