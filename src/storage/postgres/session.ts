import { connect, Socket } from 'node:net';
import type { Client, PoolClient, QueryResultRow } from 'pg';
import { aborted } from '../../domain/errors.ts';

/** Receives what an operator should know of the database. */
export type Warn = (message: string) => void;

export interface SessionLimits {
  /** Whether a server that takes no writes is rejected. */
  readonly writable: boolean;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
}

interface Session extends QueryResultRow {
  /** Whether the session is this connection's alone. A pooler lends sessions out, and invents their ids. */
  readonly own: boolean;
  readonly read_only: string;
  readonly synchronous_commit: string;
  readonly fsync: string;
  readonly full_page_writes: string;
}

/**
 * The first statement on a connection: it limits the session, and ensures that a commit is on disk when
 * it is acknowledged. In a session that a pooler shares with other clients it sets nothing, because the
 * limits would apply to them too; the settings of the role apply instead. Startup parameters are not used,
 * because poolers reject them. Resolves to whether the session is this connection's alone.
 */
export async function setUpSession(client: Client, limits: SessionLimits, warn: Warn): Promise<boolean> {
  const { rows } = await client.query<Session>(setUpSql(client, limits));
  const [session] = rows;
  if (session === undefined) throw new Error('a SELECT without a condition has a row');
  const { own, read_only, synchronous_commit, ...files } = session;
  if (limits.writable && read_only === 'on') throw new Error('takes no writes: a standby, or read-only');
  if (!own) {
    warn(
      'a connection pooler is in front of PostgreSQL: set statement_timeout, lock_timeout and ' +
        'idle_in_transaction_session_timeout for the role or the database',
    );
  }
  if (synchronous_commit === 'off') {
    throw new Error('synchronous_commit is off, and behind a connection pooler only the role can set it');
  }
  for (const name of ['fsync', 'full_page_writes'] as const) {
    if (files[name] === 'off') warn(`PostgreSQL runs with ${name} = off: a crash can damage the database`);
  }
  return own;
}

function setUpSql(client: Client, limits: SessionLimits): string {
  const settings = {
    statement_timeout: limits.statementTimeoutMs,
    lock_timeout: limits.lockTimeoutMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionTimeoutMs,
  };
  const limit = ([name, ms]: [string, number]) =>
    `CASE WHEN own THEN set_config('${name}', '${ms}', false) END`;
  // Every value but off waits at least for this server's disk, so it stays as the operator set it.
  return `
    SELECT own, current_setting('transaction_read_only') AS read_only,
      ${Object.entries(settings).map(limit).join(', ')},
      CASE WHEN own AND current_setting('synchronous_commit') = 'off'
        THEN set_config('synchronous_commit', 'on', false)
        ELSE current_setting('synchronous_commit') END AS synchronous_commit,
      current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes
    FROM (SELECT pg_backend_pid() = ${processIdOf(client)} AS own) AS session`;
}

/** Opens a session and ends it. Fails when it cannot be opened, or not before the signal. */
export async function probe(
  client: Client,
  limits: SessionLimits,
  warn: Warn,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  client.on('error', () => {});
  const cut = () => client.connection.stream.destroy();
  signal.addEventListener('abort', cut);
  try {
    await client.connect();
    await setUpSession(client, limits, warn);
  } catch (cause) {
    throw signal.aborted ? new Error('does not answer in time', { cause }) : cause;
  } finally {
    signal.removeEventListener('abort', cut);
    await endClient(client);
  }
}

const endGraceMs = 1_000;

/** Ends a connection, by force when the server does not answer. */
export async function endClient(client: Client): Promise<void> {
  const force = setTimeout(() => client.connection.stream.destroy(), endGraceMs);
  await client.end().catch(() => {});
  clearTimeout(force);
}

// The code of a cancel request in the protocol, in the place of its version.
const cancelCode = 80_877_102;
const cancelGraceMs = 500;
const cancelTimeoutMs = 30_000;

/**
 * Ends a connection and the statement that runs on it. It sends the protocol's cancel request, whose key
 * belongs to this connection: no other client's statement can be cancelled, and it works through poolers.
 */
export function kill(client: Client): void {
  const { stream } = client.connection;
  const key = 'secretKey' in client ? client.secretKey : undefined;
  if (!(stream instanceof Socket) || typeof key !== 'number') {
    stream.destroy();
    return;
  }
  const { remoteAddress: host, remotePort: port } = stream;
  const path = `${client.host}/.s.PGSQL.${client.port}`;
  const request = Buffer.alloc(16);
  for (const [i, word] of [request.length, cancelCode, processIdOf(client), key].entries()) {
    request.writeInt32BE(word, i * 4);
  }
  const socket = host === undefined || port === undefined ? connect({ path }) : connect({ host, port });
  const end = () => stream.destroy();
  // A pooler forgets the key when the connection ends, so the request goes first.
  const timer = setTimeout(end, cancelGraceMs);
  socket.on('close', () => {
    clearTimeout(timer);
    end();
  });
  // The other side closes. PgBouncer 1.18 aborts when a request is closed from this side before it was passed on.
  socket.setTimeout(cancelTimeoutMs, () => socket.destroy());
  socket
    .on('error', () => {})
    .unref()
    .resume()
    .write(request);
}

function processIdOf(client: Client): number {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : 0;
}

/** The driver cannot cancel a wait for a connection: one that arrives after a signal is released at once. */
export function unlessLate(
  connecting: Promise<PoolClient>,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<PoolClient> {
  const giveBack = () => connecting.then((client) => client.release()).catch(() => {});
  return signals.reduce(
    (waiting, signal) => (signal === undefined ? waiting : unlessAborted(waiting, signal, giveBack)),
    connecting,
  );
}

/** Settles at once when the signal aborts. */
export function unlessAborted<T>(result: Promise<T>, signal: AbortSignal, onAbort?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(aborted(signal));
      onAbort?.();
    };
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
    result.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}
