import assert from 'node:assert/strict';
import { after } from 'node:test';
import pg from 'pg';
import type { RepositoryTraits } from '../../../src/conformance/fixture.ts';
import type { Repository, Store } from '../../../src/domain/repository.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { tables } from '../../../src/storage/tables.ts';
import { patient } from '../../kit/postgres.ts';

/** Empty stores for the tests of the contract. */
export interface ContractStores {
  openEmpty(options?: PostgresStoreOptions): Promise<Store>;
  readonly traits: RepositoryTraits;
}

/**
 * Makes stores in new schemas, or in emptied ones of closed stores: creating the tables of a schema takes three times
 * the processor time of opening a store in it.
 */
export function contractStores(createSchema: () => Promise<string>): ContractStores {
  const urls = new WeakMap<Repository, string>();
  /** The last store of each schema that is in use. */
  const users = new Map<string, Store>();
  const unused = new Set<string>();

  /** A connection to each schema. Opening one costs as much as opening a store. */
  const clients = new Map<string, pg.Client>();
  after(() => Promise.all([...clients.values()].map((client) => client.end())));

  async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
    let client = clients.get(url);
    if (client === undefined) {
      // The server may stop before the connections are closed.
      client = new pg.Client({ connectionString: url }).on('error', () => {});
      clients.set(url, client);
      await client.connect();
    }
    return (await client.query(sql)).rows;
  }

  function urlOf(repository: Repository): string {
    const url = urls.get(repository);
    assert(url !== undefined, 'the store was opened before');
    return url;
  }

  async function openAt(url: string, options?: PostgresStoreOptions): Promise<Store> {
    unused.delete(url);
    const store = await openPostgresStore(url, { ...patient, ...options });
    urls.set(store, url);
    users.set(url, store);
    const { close } = store;
    return Object.assign(store, {
      async close() {
        await close();
        if (users.get(url) !== store) return;
        users.delete(url);
        unused.add(url);
      },
    });
  }

  async function openEmpty(options?: PostgresStoreOptions): Promise<Store> {
    const [url] = unused;
    if (url === undefined) return openAt(await createSchema(), options);
    unused.delete(url);
    // For a few rows, TRUNCATE takes ten times the processor time, because it creates the files of all indexes again.
    const filled = ['changes', 'idempotency_keys', ...Object.keys(tables).reverse()];
    await query(
      url,
      `${filled.map((table) => `DELETE FROM ${table};`).join(' ')}
      UPDATE change_feed SET gone = 0, complete = true;
      SELECT setval(oid::regclass, 1, false) FROM pg_class
        WHERE relkind = 'S' AND relnamespace = current_schema()::regnamespace`,
    );
    return openAt(url, options);
  }

  const traits: RepositoryTraits = {
    feed: true,
    reopen: (closed) => openAt(urlOf(closed)),
    // Keys expire by the clock of the database server, which all copies of the service share.
    async passTime(repository, ms) {
      const sql = `UPDATE idempotency_keys SET expires_at = expires_at - interval '${ms} milliseconds'`;
      await query(urlOf(repository), sql);
    },
    async countKeys(repository) {
      const [row] = await query(urlOf(repository), 'SELECT count(*) AS count FROM idempotency_keys');
      return Number(row?.['count']);
    },
  };
  return { openEmpty, traits };
}
