import type { Client, ClientConfig, PoolConfig } from 'pg';
import { aborted, DomainError, storeClosed } from '../../domain/errors.ts';
import type { Page, PostQuery, UserFilter, UserQuery } from '../../domain/list-query.ts';
import type { Post, PostDraft } from '../../domain/post.ts';
import type {
  CallOptions,
  ChangeOptions,
  Created,
  CreateOptions,
  Store,
  StoreSummary,
} from '../../domain/repository.ts';
import type { StoredUser, User, UserDraft, UserPatch } from '../../domain/user.ts';
import { cannotOpen, messageOf } from './errors.ts';
import { type PostgresSettings, type PostgresStoreOptions, postgresSettings } from './options.ts';
import { PostgresPool } from './pool.ts';
import { PostgresReads } from './reads.ts';
import { prepareSchema } from './schema.ts';
import { PostgresWrites } from './writes.ts';

export type { PostgresStoreOptions } from './options.ts';

/**
 * Opens the database at a `postgres:` URL, whose tables it makes or brings up to date. Any number of
 * processes may share it. Fails when the server cannot be reached; once open, the store outlives
 * restarts and failovers of the server, and is `unavailable` meanwhile. Needs PostgreSQL 12 or newer,
 * and the optional dependency `pg`, which defines what else a URL may say (`sslmode`, say).
 */
export async function openPostgresStore(url: string, options: PostgresStoreOptions = {}): Promise<Store> {
  const settings = postgresSettings(options);
  const config = driverConfig(url, settings);
  const { Client, Pool } = await loadDriver();
  const client = createClient(Client, { ...config, ...migrationLimits });
  try {
    await client.connect();
    await prepareSchema(client);
    return new PostgresStore(new PostgresPool(new Pool(config), settings), settings);
  } catch (caught) {
    throw cannotOpen(client.host, client.port, caught);
  } finally {
    await client.end();
  }
}

function driverConfig(url: string, settings: PostgresSettings): PoolConfig {
  return {
    connectionString: url,
    // One more than the calls can have: for `ping` and for cancelling.
    max: settings.poolSize + 1,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    // Never closed for being idle: the first request after a quiet hour is as fast as any.
    idleTimeoutMillis: 0,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveDelayMs,
    statement_timeout: settings.statementTimeoutMs,
    lock_timeout: settings.lockTimeoutMs,
    idle_in_transaction_session_timeout: settings.idleInTransactionTimeoutMs,
    application_name: settings.applicationName,
  };
}

// Sooner than what lies between (NAT, load balancers) forgets a silent connection.
const keepAliveDelayMs = 10_000;

// An index on a big table takes its time; another process that migrates is waited for.
const migrationLimits: ClientConfig = { statement_timeout: false, lock_timeout: 60_000 };

async function loadDriver(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw new Error('a postgres: database needs the package "pg": run npm install pg', { cause });
  }
}

function createClient(driver: typeof Client, config: ClientConfig): Client {
  try {
    const client = new driver(config);
    // What fails reaches the call that waits for it; without a listener it would end the process too.
    client.on('error', () => {});
    return client;
  } catch (caught) {
    // The driver's messages name the part of the URL, and not the URL, which may hold a password.
    throw new DomainError('invalid', `the database URL cannot be used: ${messageOf(caught)}`);
  }
}

class PostgresStore implements Store {
  readonly #pool: PostgresPool;
  readonly #reads: PostgresReads;
  readonly #writes: PostgresWrites;
  #closing: Promise<void> | undefined;

  constructor(pool: PostgresPool, settings: PostgresSettings) {
    this.#pool = pool;
    this.#reads = new PostgresReads(pool);
    this.#writes = new PostgresWrites(pool, settings.idempotencyTtlMs);
  }

  async getUser(id: number, options?: CallOptions): Promise<StoredUser | undefined> {
    this.#enter(options);
    return this.#reads.getUser(id, options?.signal);
  }

  async listUsers(query: UserQuery, options?: CallOptions): Promise<Page<User>> {
    this.#enter(options);
    return this.#reads.listUsers(query, options?.signal);
  }

  async countUsers(filter: UserFilter, options?: CallOptions): Promise<number> {
    this.#enter(options);
    return this.#reads.countUsers(filter, options?.signal);
  }

  async createUser(draft: UserDraft, options?: CreateOptions): Promise<Created<StoredUser>> {
    this.#enter();
    return this.#writes.createUser(draft, options);
  }

  async updateUser(id: number, patch: UserPatch, options?: ChangeOptions): Promise<StoredUser | undefined> {
    this.#enter();
    return this.#writes.updateUser(id, patch, options?.expected);
  }

  async deleteUser(id: number, options?: ChangeOptions): Promise<boolean> {
    this.#enter();
    return this.#writes.deleteUser(id, options?.expected);
  }

  async listPosts(userId: number, query: PostQuery, options?: CallOptions): Promise<Page<Post> | undefined> {
    this.#enter(options);
    return this.#reads.listPosts(userId, query, options?.signal);
  }

  async countPosts(userId: number, options?: CallOptions): Promise<number | undefined> {
    this.#enter(options);
    return this.#reads.countPosts(userId, options?.signal);
  }

  async createPost(
    userId: number,
    draft: PostDraft,
    options?: CreateOptions,
  ): Promise<Created<Post> | undefined> {
    this.#enter();
    return this.#writes.createPost(userId, draft, options);
  }

  async ping(options?: CallOptions): Promise<void> {
    this.#enter(options);
    return this.#reads.ping(options?.signal);
  }

  close(): Promise<void> {
    this.#closing ??= this.#pool.close();
    return this.#closing;
  }

  async summary(): Promise<StoreSummary> {
    this.#enter();
    return this.#reads.summary();
  }

  async exportUsers(afterId: number, limit: number): Promise<readonly StoredUser[]> {
    this.#enter();
    return this.#reads.exportUsers(afterId, limit);
  }

  async exportPosts(afterId: number, limit: number): Promise<readonly Post[]> {
    this.#enter();
    return this.#reads.exportPosts(afterId, limit);
  }

  async importUsers(users: readonly StoredUser[]): Promise<number> {
    this.#enter();
    return this.#writes.importUsers(users);
  }

  async importPosts(posts: readonly Post[]): Promise<number> {
    this.#enter();
    return this.#writes.importPosts(posts);
  }

  async continueIds(last: Pick<StoreSummary, 'lastUserId' | 'lastPostId'>): Promise<void> {
    this.#enter();
    return this.#writes.continueIds(last);
  }
  #enter({ signal }: CallOptions = {}): void {
    if (this.#closing !== undefined) throw storeClosed();
    if (signal?.aborted) throw aborted(signal);
  }
}
