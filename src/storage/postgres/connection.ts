import { hash } from 'node:crypto';
import { addAbortListener } from 'node:events';
import { connect, Socket } from 'node:net';
import type { Client } from 'pg';
import { DomainError, messageOf } from '../../domain/errors.ts';
import type { StoreNumbers } from '../options.ts';
import { connectError } from './errors.ts';
import type { Hosts } from './hosts.ts';

/** A statement. If it has a name, each connection parses it once. */
export interface Sql {
  readonly name?: string | undefined;
  readonly text: string;
}

/** Names a statement by the hash of its text, so that releases that share sessions of a pooler share no names. */
export function prepared(text: string): Sql {
  return { name: `users-service-${hash('sha256', text).slice(0, 24)}`, text };
}

// The types that our statements return, besides text. A host may have changed the parsers of the driver.
const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  16: (text) => text === 't', // boolean
  20: Number, // bigint: positions and times, never float8, whose text depends on the settings of the session
  23: Number, // integer
  114: JSON.parse, // json
  3802: JSON.parse, // jsonb, to which an operator may convert a column
};

export const types = { getTypeParser: (type: number) => parsers[type] ?? String };

export type Send = <Row extends object>(sql: Sql, values?: readonly unknown[]) => Promise<Row[]>;

/** The first row of a statement that always returns one. */
export function firstOf<Row>([first]: readonly Row[], source = 'a SELECT without a condition'): Row {
  if (first === undefined) throw new DomainError('internal', `${source} has no row`);
  return first;
}

export type Warn = (message: string) => void;

/** The settings of a pool. `PostgresStoreOptions` explains the numbers. */
export interface PoolSettings extends StoreNumbers {
  /** Makes a client of the driver for the URL of one host. */
  readonly createClient: (url: string) => Client;
  /** Receives warnings for the operator of the database. */
  readonly warn: Warn;
  /** The first of them is used until it fails. Then all are probed, and the first to pass is used. */
  readonly hosts: Hosts;
  /** Whether to reject a server that does not accept writes. */
  readonly writable: boolean;
}

type SessionSettings = Omit<PoolSettings, 'createClient' | 'hosts'>;

// Settings with which an acknowledged write could be lost.
const unsafe = { synchronous_commit: 'off', client_min_messages: 'error' };

// Every session has these, but in one of a pooler, only the role or the database can set them.
const timeouts = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'];

// The code of a cancel request, which replaces the protocol version.
const cancelCode = 80_877_102;
const cancelGraceMs = 500;
const cancelTimeoutMs = 30_000;
const closeGraceMs = 1_000;

/** A connection to a server, with a session that has limits and durable commits. */
export class Connection {
  readonly client: Client;
  /** The generation of `HostSearch` in which it opened. A connection that only probes a host has none. */
  generation: number | undefined;
  /** When its last statement succeeded, by `performance.now()`. The pool sets it. */
  succeededAt = 0;
  /** Whether it has ended, or no further call may use it. */
  isDead = false;
  /** Whether its queue may open another one in its place. */
  isReplaced = false;
  /** Whether the server accepted no writes when it opened. */
  isReadOnly = false;
  /** Whether the server stopped waiting for a standby to confirm a commit, which may be lost in a failover. */
  isUnconfirmed = false;

  constructor(client: Client) {
    this.client = client;
    catchParser(client);
    client.on('error', () => {
      this.isDead = true;
    });
    client.on('notice', (notice) => {
      // Compare the name of the reporting function, because the text depends on the language of the server.
      if (notice.routine !== 'SyncRepWaitForLSN') return;
      this.isUnconfirmed = true;
      this.isDead = true;
    });
  }

  /** Connects, and sets up the session with one statement. After a failure, a timeout or an abort, closes it. */
  async open(settings: SessionSettings, timeoutMs: number, signal?: AbortSignal): Promise<this> {
    let isCut = false;
    const cut = () => {
      isCut = true;
      this.destroy();
    };
    using _ = signal && addAbortListener(signal, cut);
    // Not `using`: a test of the host may mock timers, and such a timer is not disposable.
    const timer = setTimeout(cut, timeoutMs);
    try {
      await this.client.connect();
      await this.#setUp(settings);
      return this;
    } catch (cause) {
      const error = isCut ? new Error('does not answer in time', { cause }) : connectError(cause);
      await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Limits the session, and ensures that a commit is on disk when it is acknowledged. Sets nothing in a session of a
   * pooler, whose other clients it would affect, and uses no startup parameters, which poolers reject.
   */
  async #setUp(settings: SessionSettings): Promise<void> {
    const { warn, writable } = settings;
    const { rows } = await this.client.query<Record<string, string>>(setUpSql(this.client, settings));
    const session = firstOf(rows);
    this.isReadOnly = session['read_only'] === 'on';
    if (writable && this.isReadOnly) throw new Error('takes no writes: a standby, or read-only');
    const unlimited = timeouts.filter((name) => session[name] === '0').join(', ');
    if (unlimited !== '') {
      warn(`a connection pooler is in front of PostgreSQL: set ${unlimited} for the role or the database`);
    }
    for (const [name, value] of Object.entries(unsafe)) {
      if (session[name] !== value) continue;
      throw new Error(`${name} is ${value}, and behind a connection pooler only the role can set it`);
    }
    const off = ['fsync', 'full_page_writes'].filter((name) => session[name] === 'off');
    for (const name of off) warn(`PostgreSQL runs with ${name} = off: a crash can damage the database`);
  }

  /** Closes the connection, by force if the server does not respond. */
  async close(): Promise<void> {
    this.isDead = true;
    const timer = setTimeout(() => this.destroy(), closeGraceMs);
    await this.client.end().catch(() => {});
    clearTimeout(timer);
  }

  /** Ends the connection without notice to the server. */
  destroy(): void {
    this.isDead = true;
    this.client.connection.stream.destroy();
  }

  /** Ends the connection, and its statement by a cancel request, whose key fits no other client of a pooler. */
  kill(): void {
    this.isDead = true;
    const { client } = this;
    const { stream } = client.connection;
    const key = 'secretKey' in client ? client.secretKey : undefined;
    if (!(stream instanceof Socket) || typeof key !== 'number') {
      this.destroy();
      return;
    }
    const { remoteAddress: host, remotePort: port } = stream;
    const path = `${client.host}/.s.PGSQL.${client.port}`;
    const request = Buffer.alloc(16);
    const words = [request.length, cancelCode, processIdOf(client), key];
    for (const [i, word] of words.entries()) request.writeInt32BE(word, i * 4);
    const socket = host === undefined || port === undefined ? connect({ path }) : connect({ host, port });
    // Not earlier: a pooler forgets the key when the connection ends, and the error of the statement may still arrive.
    setTimeout(() => this.destroy(), cancelGraceMs).unref();
    // The server closes the socket. PgBouncer 1.18 aborts if the client closes a request before it was forwarded.
    socket.setTimeout(cancelTimeoutMs, () => socket.destroy());
    socket.on('error', () => {});
    socket.unref().resume().write(request);
  }
}

/** Ends the connection, not the process, at a message that the driver cannot parse, such as a request for Kerberos. */
function catchParser({ connection }: Client): void {
  const { attachListeners } = Object(connection);
  const attach = (stream: Socket) => {
    const on = (event: string, listen: (bytes: unknown) => void) =>
      stream.on(event, (bytes) => {
        try {
          listen(bytes);
        } catch (caught) {
          stream.destroy(new Error(`it sent what the driver cannot read: ${messageOf(caught)}`));
        }
      });
    attachListeners.call(connection, { on });
  };
  Object.assign(Object(connection), { attachListeners: attach });
}

function setUpSql(client: Client, settings: SessionSettings): string {
  const values = {
    statement_timeout: settings.statementTimeoutMs,
    lock_timeout: settings.lockTimeoutMs,
    idle_in_transaction_session_timeout: settings.idleInTransactionTimeoutMs,
    // With every other value than `off`, a commit waits for a disk. The value is set again even if it is the same, so
    // that a reload of the configuration does not change it.
    synchronous_commit: `COALESCE(NULLIF(current_setting('synchronous_commit'), 'off'), 'on')`,
    // With a warning, the server reports a commit that no standby has confirmed.
    client_min_messages: `'warning'`,
    // When a machine vanishes, the server by default keeps its idle connections for two hours, and those to which it
    // sends a response for 15 minutes. The first two are in seconds. The last one replaces a count of keepalives.
    tcp_keepalives_idle: 30,
    tcp_keepalives_interval: 10,
    tcp_user_timeout: 60_000,
  };
  const set = ([name, value]: [string, string | number]) => `
    CASE WHEN own THEN set_config('${name}', ${value}::text, false) ELSE current_setting('${name}') END AS ${name}`;
  return `
    SELECT current_setting('transaction_read_only') AS read_only, ${Object.entries(values).map(set)},
      current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes
    FROM (SELECT pg_backend_pid() = ${processIdOf(client)} AS own) AS session`;
}

/** The id of the session, or the id that a pooler invented. */
function processIdOf(client: Client): number {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : 0;
}
