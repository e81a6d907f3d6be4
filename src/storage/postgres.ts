import type { PoolConfig } from 'pg';
import { CursorSealer, type Sortable } from '../domain/cursor.ts';
import { aborted, keyReused, preconditionFailed, storeClosed } from '../domain/errors.ts';
import type { ListQuery, PostQuery, UserQuery } from '../domain/list-query.ts';
import type { Post, PostDraft } from '../domain/post.ts';
import type {
  CallOptions,
  ChangeOptions,
  Created,
  CreateOptions,
  IdempotencyKey,
  Page,
} from '../domain/repository.ts';
import type { Store, StoreSummary } from '../domain/transfer.ts';
import type { StoredUser, User, UserDraft, UserPatch } from '../domain/user.ts';
import { listSql } from './list-sql.ts';
import { cannotOpen } from './postgres-errors.ts';
import { type PostgresOptions, type PostgresSettings, postgresSettings } from './postgres-options.ts';
import { PostgresPool, type Sql } from './postgres-pool.ts';
import { prepareSchema } from './postgres-schema.ts';
import * as sql from './postgres-sql.ts';
import * as transfer from './postgres-transfer.ts';

export type { PostgresOptions } from './postgres-options.ts';

/**
 * Opens the database at a `postgres:` URL, whose tables it makes or brings up to date. Any number of
 * processes may share one database. Fails when it cannot be reached; once open, the store outlives
 * restarts and failovers of the server, and answers `unavailable` meanwhile.
 */
export async function openPostgresStore(url: string, options: PostgresOptions = {}): Promise<Store> {
  const settings = postgresSettings(options);
  const { Client, Pool } = await loadDriver();
  const config: PoolConfig = { connectionString: url, connectionTimeoutMillis: settings.connectTimeoutMs };
  const client = new Client({ ...config, application_name: settings.applicationName });
  // A failure reaches the call that waits; an idle connection has none, and is used no more.
  client.on('error', () => {});
  try {
    await client.connect();
    const secret = await prepareSchema(client);
    return new PostgresStore(new PostgresPool(Pool, url, settings), secret, settings);
  } catch (error) {
    throw cannotOpen(client.host, client.port, error);
  } finally {
    await client.end();
  }
}

async function loadDriver(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw new Error('a postgres: database needs the package "pg": run npm install pg', { cause });
  }
}

interface UserRow {
  readonly id: number;
  readonly name: string;
  /** Empty when not set. */
  readonly role: string;
  readonly version: number;
}

interface PostRow {
  readonly id: number;
  readonly user_id: number;
  readonly title: string;
  readonly body: string;
}

interface KeptRow<Row> {
  readonly fingerprint: string;
  readonly response: Row;
  readonly replayed: boolean;
}

class PostgresStore implements Store {
  readonly #pool: PostgresPool;
  readonly #sealer: CursorSealer;
  readonly #settings: PostgresSettings;
  /** Names of the lists' statements by their text, of which there are some hundred. */
  readonly #listNames = new Map<string, string>();

  constructor(pool: PostgresPool, secret: Uint8Array, settings: PostgresSettings) {
    this.#pool = pool;
    this.#sealer = new CursorSealer(secret);
    this.#settings = settings;
  }

  async getUser(id: number, options?: CallOptions): Promise<StoredUser | undefined> {
    const [row] = await this.#pool.read<UserRow>(sql.getUser, [id], options?.signal);
    return row && toStoredUser(row);
  }

  async listUsers(query: UserQuery, options?: CallOptions): Promise<Page<User>> {
    const { role } = query;
    const list = { table: 'users', columns: 'id, name, role', filter: role === undefined ? {} : { role } };
    return this.#page(`users ${role ?? ''}`, query, list, toUser, options);
  }

  async countUsers({ role }: Pick<UserQuery, 'role'>, options?: CallOptions): Promise<number> {
    const statement = role === undefined ? sql.countUsers : sql.countUsersWithRole;
    const values = role === undefined ? [] : [role];
    const [row] = await this.#pool.read<{ count: number }>(statement, values, options?.signal);
    return row?.count ?? 0;
  }

  async createUser(draft: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>> {
    const created = await this.#create(sql.createUser, sql.createUserOnce, userValues(draft), options);
    if (created === undefined) throw new Error('an INSERT without a condition has a row');
    return created
  }
}
