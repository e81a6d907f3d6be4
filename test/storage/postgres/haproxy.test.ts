import { after, describe } from 'node:test';
import pg from 'pg';
import { testRepository } from '../../../src/conformance/test-repository.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import type { Repository, Store } from '../../../src/domain/repository.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { missingHaproxy, startHaproxy } from '../../kit/haproxy.ts';
import { patient, startPostgres } from '../../kit/postgres.ts';

const skip = await missingHaproxy();

describe('HAProxy in front of PostgreSQL', { skip }, async () => {
  if (skip !== false) return;
  const postgres = await startPostgres();
  const proxy = await startHaproxy(after, postgres.server.url());
  after(() => postgres.close());
  const urls = new WeakMap<Repository, string>();
  const shared = await postgres.createDatabase();

  async function openAt(url: string): Promise<Store> {
    const store = await openPostgresStore(url, patient);
    urls.set(store, url);
    return store;
  }

  const openEmpty = async () => openAt(proxy.through(await postgres.createSchema(shared)));
  testRepository('PostgreSQL behind HAProxy', openEmpty, {
    reopen: (closed) => openAt(urls.get(closed) ?? ''),
    async passTime(repository, ms) {
      const client = new pg.Client({ connectionString: urls.get(repository) ?? '' });
      await client.connect();
      await client.query(
        `UPDATE idempotency_keys SET expires_at = expires_at - interval '${ms} milliseconds'`,
      );
      await client.end();
    },
  });
  testTransfer('PostgreSQL behind HAProxy', openEmpty);
});
