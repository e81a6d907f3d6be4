import assert from 'node:assert/strict';
import { chown, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { examinePostgres } from '../../../src/storage/postgres/examine.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { startPostgres } from '../../kit/postgres.ts';
import type { PostgresServer } from '../../kit/postgres-server.ts';
import { until } from '../../kit/until.ts';
import { createCertificate } from '../../support/certificate.ts';

describe('a connection to PostgreSQL with TLS', async () => {
  const postgres = await startPostgres();
  const folder = await mkdtemp(join(tmpdir(), 'users-service-postgres-tls-'));
  after(async () => {
    await postgres.close();
    await rm(folder, { recursive: true });
  });
  const authority = join(folder, 'server.crt');
  await useCertificate(postgres.server, folder);
  const database = await postgres.createDatabase();
  const open = (parameters: string) => openPostgresStore(`${database}?${parameters}`);
  const isEncrypted = async () => {
    const sql = `SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
      WHERE application_name = 'users-service'`;
    const rows = await postgres.server.query<{ ssl: boolean }>(sql);
    return rows.length > 0 && rows.every(({ ssl }) => ssl);
  };

  for (const mode of ['verify-full', 'verify-ca', 'require', 'prefer']) {
    it(`with sslmode=${mode} is encrypted, checks the certificate, and prints no warning`, async (t) => {
      const warnings: string[] = [];
      const onWarning = ({ message }: Error) => warnings.push(message);
      process.on('warning', onWarning);
      t.after(() => process.off('warning', onWarning));

      await assert.rejects(open(`sslmode=${mode}`), /self-signed certificate/);
      await using store = await opened(open(`sslmode=${mode}&sslrootcert=${authority}`));
      const { value } = await store.users.create({ name: 'Ada' });
      assert.deepEqual(await store.users.get(value.id), value);
      assert.ok(await isEncrypted());
      assert.deepEqual(warnings, []);
    });
  }

  it('with sslmode=no-verify is encrypted, and accepts any certificate', async () => {
    await using store = await opened(open('sslmode=no-verify'));
    await store.ping();
    assert.ok(await isEncrypted());
  });

  const remedy = 'use sslmode=verify-full';
  const findings = [
    ['sslmode=disable', { level: 'ok', what: 'the connection is not encrypted', remedy: '' }],
    [
      `sslmode=verify-full&sslrootcert=${authority}`,
      { level: 'ok', what: 'the connection is encrypted', remedy: '' },
    ],
    [
      'sslmode=no-verify',
      {
        level: 'warn',
        what: 'the connection is encrypted, but the certificate of the server is not checked',
        remedy,
      },
    ],
  ] as const;
  for (const [parameters, finding] of findings) {
    it(`is examined as "${finding.what}"`, async () => {
      const found = await examinePostgres(`${database}?${parameters}`);
      const named = { ...finding, what: `${new URL(database).host}: ${finding.what}` };
      const encrypted = found.filter(({ what }) => what.includes('encrypted'));
      assert.deepEqual(encrypted, [named]);
    });
  }

  it('reports a missing file of the authority with its path', async () => {
    await assert.rejects(
      open('sslmode=verify-full&sslrootcert=/nowhere.crt'),
      /no such file.*\/nowhere\.crt/,
    );
  });
});

async function opened(opening: ReturnType<typeof openPostgresStore>) {
  const store = await opening;
  return Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
}

/** Writes a certificate into the folder, and lets the running server use it. */
async function useCertificate(server: PostgresServer, folder: string): Promise<void> {
  const { cert, key } = createCertificate();
  const [data] = await server.query<{ data_directory: string }>('SHOW data_directory');
  const { uid, gid } = await stat(data?.data_directory ?? '');
  await chown(folder, uid, gid);
  for (const [name, text] of [
    ['server.crt', cert],
    ['server.key', key],
  ] as const) {
    const path = join(folder, name);
    await writeFile(path, text, { mode: 0o600 });
    await chown(path, uid, gid);
  }
  await server.query(`ALTER SYSTEM SET ssl_cert_file = '${join(folder, 'server.crt')}'`);
  await server.query(`ALTER SYSTEM SET ssl_key_file = '${join(folder, 'server.key')}'`);
  await server.query('ALTER SYSTEM SET ssl = on');
  await server.query('SELECT pg_reload_conf()');
  const isOn = async () => (await server.query<{ ssl: string }>('SHOW ssl'))[0]?.ssl === 'on';
  await until(isOn, 'the server uses TLS');
}
