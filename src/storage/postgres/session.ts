import type { Client, PoolClient, QueryResultRow } from 'pg';
import { aborted } from '../../domain/errors.ts';

/** Receives warnings for the operator of the database. */
export type Warn = (message: string) => void;

export interface SessionLimits {
  /** Whether to reject a server that does not accept writes. */
  readonly writable: boolean;
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
}

interface Session extends QueryResultRow {
  /** Whether only this connection uses the session. A pooler shares sessions, and invents their ids. */
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
 * because poolers reject them. Resolves to whether only this connection uses the session.
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
  // Every value except off waits at least for the disk of this server, so the setting of the operator is kept.
  return `
    SELECT own, current_setting('transaction_read_only') AS read_only,
      ${Object.entries(settings).map(limit).join(', ')},
      CASE WHEN own AND current_setting('synchronous_commit') = 'off'
        THEN set_config('synchronous_commit', 'on', false)
        ELSE current_setting('synchronous_commit') END AS synchronous_commit,
      current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes
    FROM (SELECT pg_backend_pid() = ${processIdOf(client)} AS own) AS session`;
}

/**
 * Opens a connection and sets up its session. Resolves to whether only this connection uses the session. Closes the
 * connection on a failure, and fails when the signal aborts.
 */
export async function openSession(
  client: Client,
  limits: SessionLimits,
  warn: Warn,
  signal: AbortSignal,
): Promise<boolean> {
  signal.throwIfAborted();
  client.on('error', () => {});
  const cut = () => client.connection.stream.destroy();
  signal.addEventListener('abort', cut);
  try {
    await client.connect();
    return await setUpSession(client, limits, warn);
  } catch (cause) {
    await endClient(client);
    throw signal.aborted ? new Error('does not answer in time', { cause }) : cause;
  } finally {
    signal.removeEventListener('abort', cut);
  }
}

const endGraceMs = 1_000;

/** Closes a connection, by force if the server does not respond. */
export async function endClient(client: Client): Promise<void> {
  const force = setTimeout(() => client.connection.stream.destroy(), endGraceMs);
  await client.end().catch(() => {});
  clearTimeout(force);
}

/** The id of the session, or the id that a pooler invented. */
export function processIdOf(client: Client): number {
  return 'processID' in client && typeof client.processID === 'number' ? client.processID : 0;
}

/** The driver cannot cancel waiting for a connection: one that arrives after the signal is released at once. */
export function unlessLate(
  connecting: Promise<PoolClient>,
  ...signals: readonly (AbortSignal | undefined)[]
): Promise<PoolClient> {
  const giveBack = () => connecting.then((client) => client.release()).catch(() => {});
  return signals.reduce((waiting, signal) => unlessAborted(waiting, signal, giveBack), connecting);
}

/** Settles at once when the signal, if there is one, aborts. */
export function unlessAborted<T>(
  result: Promise<T>,
  signal: AbortSignal | undefined,
  onAbort?: () => void,
): Promise<T> {
  if (signal === undefined) return result;
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
