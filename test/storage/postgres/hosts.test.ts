import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, it, type TestContext } from 'node:test';
import pg from 'pg';
import { feedOf } from '../../../src/conformance/follow.ts';
import type { Store } from '../../../src/domain/repository.ts';
import { parseHosts } from '../../../src/storage/postgres/hosts.ts';
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/storage/postgres/store.ts';
import { openPostgresScratch } from '../../../src/storage/postgres/tools.ts';
import { openForwarder } from '../../kit/forwarder.ts';
import { patient, startPostgres } from '../../kit/postgres.ts';
import type { PostgresServer } from '../../kit/postgres-server.ts';
import { openSession } from '../../kit/postgres-session.ts';
import { until } from '../../kit/until.ts';
import { createCertificate } from '../../support/certificate.ts';
import { closeAfter } from '../../support/close-after.ts';
import { kindOf, timed } from '../../support/outcome.ts';
import { temporaryFolder } from '../../support/temporary.ts';

describe('the hosts of a database URL', () => {
  const rows: readonly [url: string, urls: readonly string[], writable: boolean][] = [
    ['postgres://u:p@h/db', ['postgres://u:p@h/db'], false],
    ['postgres://u@h1:1,h2/db', ['postgres://u@h1:1/db', 'postgres://u@h2/db'], true],
    ['postgres://h/db?a=1&sslmode=require', ['postgres://h/db?a=1&sslmode=verify-full'], false],
    [
      'postgres://h/db?uselibpqcompat=true&sslmode=require',
      ['postgres://h/db?uselibpqcompat=true&sslmode=require'],
      false,
    ],
    ['postgres://h/db?sslrootcert=system&a=1', ['postgres://h/db?&a=1&sslmode=verify-full'], false],
    [
      'postgres://h/db?sslrootcert=system&sslmode=disable#x',
      ['postgres://h/db?&sslmode=disable&sslmode=verify-full#x'],
      false,
    ],
    ['postgres://h/db?sslrootcert=system#x', ['postgres://h/db?&sslmode=verify-full#x'], false],
    ['postgres://h/a b c', ['postgres://h/a%20b%20c'], false],
    ['postgres://u:a,b@h1,h2', ['postgres://u:a,b@h1', 'postgres://u:a,b@h2'], true],
    ['postgres://[::1]:1,h2/db', ['postgres://[::1]:1/db', 'postgres://h2/db'], true],
    ['postgres:///db?host=/run/a,b', ['postgres:///db?host=/run/a,b'], false],
    ['postgres://h/db?target_session_attrs=primary', ['postgres://h/db?target_session_attrs=primary'], true],
    [
      'postgres://a,b/db?target_session_attrs=any',
      ['postgres://a/db?target_session_attrs=any', 'postgres://b/db?target_session_attrs=any'],
      false,
    ],
  ];
  for (const [url, urls, writable] of rows) {
    it(`are read from ${url}`, () => {
      const { hosts, ...others } = parseHosts(pg.Client, url);
      assert.deepEqual({ urls: hosts.map((host) => host.url), ...others }, { urls, writable });
    });
  }

  it('keep an encoded password if there is a space in the URL', () => {
    const [{ url }] = parseHosts(pg.Client, 'postgres://u:p%2Fw@h/db?options=-c search_path=app').hosts;
    const { password, connectionParameters } = new pg.Client(url) as unknown as {
      readonly password: string;
      readonly connectionParameters: { readonly options: string };
    };
    assert.deepEqual([password, connectionParameters.options], ['p/w', '-c search_path=app']);
  });

  for (const text of ['false', 'off', 'require']) {
    it(`are rejected with ssl=${text}, with which a connection would end the process`, () => {
      assert.throws(() => parseHosts(pg.Client, `postgres://h1,h2/db?ssl=${text}`), {
        kind: 'invalid',
        message: 'the database URL cannot be used: ssl must be true; to turn TLS off, use sslmode=disable',
      });
    });
  }

  for (const parameter of ['sslmod=a', 'sslMode=a', 'ssl_mode=a', 'sslcrl=a', 'sslmode=']) {
    it(`are rejected with ${parameter}, which the driver ignores`, () => {
      assert.throws(() => parseHosts(pg.Client, `postgres://h/db?${parameter}&sslmode=disable`), {
        message: `the database URL cannot be used: ${parameter.split('=')[0]} is unknown or empty; use ssl, sslmode, sslrootcert, sslcert, sslkey, sslnegotiation`,
      });
    });
  }

  it('are accepted with ssl=true, 1, 0 or no-verify', () => {
    for (const text of ['true', '1', '0', 'no-verify', 'false&sslmode=disable']) {
      parseHosts(pg.Client, `postgres://h/db?ssl=${text}`);
    }
  });

  const { cert } = createCertificate();
  const files: readonly [what: string, content: string | Buffer][] = [
    ['is empty', ''],
    ['has another text', 'no PEM'],
    ['has a certificate in DER', new X509Certificate(cert).raw],
    ['has a damaged certificate', cert.replace(/\n.{40}/, '\n')],
  ];
  for (const [what, content] of files) {
    it(`are rejected if the file of sslrootcert ${what}`, async () => {
      const folder = temporaryFolder();
      const [good, bad] = [join(folder, 'good.crt'), join(folder, 'bad crt')];
      await writeFile(good, `a comment\n${cert}`);
      await writeFile(bad, content);
      const url = `postgres://u:p@h/db?sslmode=verify-full&sslrootcert=${good}`;
      parseHosts(pg.Client, url);
      // The driver uses the last one.
      assert.throws(() => parseHosts(pg.Client, `${url}&sslrootcert=${bad}#x`), {
        kind: 'invalid',
        message: `the database URL cannot be used: sslrootcert must be a file with a certificate in PEM, not ${bad}`,
      });
    });
  }

  const bare = ['', 'h/db', 'h:5432/db', 'u:p@h/db'];
  for (const url of [...bare, 'memory:', 'sqlite:users.db', 'mysql://h/db', ' postgres://h']) {
    it(`are not read from "${url}", which is not a URL of PostgreSQL`, () => {
      assert.throws(() => parseHosts(pg.Client, url), {
        kind: 'invalid',
        message: 'the database URL must be postgres://USER@HOST/NAME',
      });
    });
  }

  for (const url of ['postgres://u:1/s3cret@h/db', 'postgres://u:1#s3cret@h/db']) {
    it(`are not read from ${url}, where part of the password would be a host`, () => {
      assert.throws(() => parseHosts(pg.Client, url), {
        kind: 'invalid',
        message: /^the database URL must be a URL with a port up to 65535 and a password with %, @, /,
      });
    });
  }

  it('are rejected if they prefer standbys', () => {
    assert.throws(() => parseHosts(pg.Client, 'postgres://h/db?target_session_attrs=standby'), {
      kind: 'invalid',
      message: 'target_session_attrs must be read-write, primary or any',
    });
  });
});

describe('a store with several hosts', async () => {
  const postgres = await startPostgres();
  after(() => postgres.close());
  const primary = postgres.server;
  const standby = await postgres.createStandby();
  const database = new URL(await postgres.createDatabase()).pathname.slice(1);

  function urlOf(...hosts: readonly (PostgresServer | string)[]): string {
    const url = new URL(primary.url(database));
    const names = hosts.map((host) => (typeof host === 'string' ? host : `127.0.0.1:${host.port}`));
    return url.href.replace(url.host, names.join(','));
  }

  async function open(t: TestContext, url: string, options?: PostgresStoreOptions): Promise<Store> {
    const store = closeAfter(t, await openPostgresStore(url, options));
    return store;
  }

  async function count(server: PostgresServer, name: string): Promise<number> {
    return (await server.query('SELECT FROM users WHERE name = $1', [name], database)).length;
  }

  it('skips a host that is down', async (t) => {
    const store = await open(t, urlOf('127.0.0.1:1', primary));
    await store.users.create({ name: 'Ada' });
    await store.ping();
  });

  it('skips a standby', async (t) => {
    const store = await open(t, urlOf(standby, primary), patient);
    await Promise.all(Array.from({ length: 20 }, () => store.users.create({ name: 'Ada' })));
    await store.ping();
  });

  it('cannot read the feed of changes from a standby alone, which does not know the running writes', async (t) => {
    await (await open(t, urlOf(primary))).users.create({ name: 'replicated' });
    const replicated = () => count(standby, 'replicated').catch(() => 0);
    await until(async () => (await replicated()) > 0, 'the standby has the tables');
    const store = await open(t, urlOf(standby));
    const error = { kind: 'unavailable', message: 'a standby cannot read the feed of changes' };
    await assert.rejects(feedOf(store).position(), error);
    await assert.rejects(feedOf(store).read({ after: 0, limit: 1 }), error);
  });

  it('is not left by a tool whose statement takes as long as creating many schemas does', async (t) => {
    const way = await openForwarder(primary.port);
    const [locker, observer] = [await openSession(t, urlOf(primary)), await openSession(t, urlOf(primary))];
    const scratch = await openPostgresScratch(urlOf(`127.0.0.1:${way.port}`, '127.0.0.1:1'));
    t.after(async () => {
      await scratch.remove();
      await way.close();
    });
    await scratch.next();
    const { accepted } = way;
    await locker.query('BEGIN');
    await locker.query('LOCK TABLE pg_namespace IN SHARE MODE');
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const creating = scratch.next();
    const waiting =
      "SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE SCHEMA%' AND wait_event_type = 'Lock'";
    while ((await observer.query(waiting)).length === 0);
    t.mock.timers.tick(9_999);
    await locker.query('COMMIT');
    await creating;
    t.mock.timers.reset();
    assert.equal(way.accepted, accepted, 'the tool has looked for another host');
  });

  it('cannot be opened when no host accepts writes, and the error has the reason of each', async (t) => {
    const hanging = closeAfter(t, await openForwarder(primary.port));
    hanging.freeze();
    const ports = [1, standby.port, hanging.port];
    const [refusing = '', behind = '', silent = ''] = ports.map((port) => `127.0.0.1:${port}`);
    await assert.rejects(openPostgresStore(urlOf(refusing, behind, silent)), {
      kind: 'unavailable',
      message:
        `PostgreSQL at ${refusing}, ${behind}, ${silent} cannot be used: ` +
        `${refusing}: connect ECONNREFUSED ${refusing}; ` +
        `${behind}: takes no writes: a standby, or read-only; ` +
        `${silent}: does not answer in time`,
    });
  });

  it('leaves a host that hangs, and uses the next one as soon as it accepts writes', async (t) => {
    const hanging = closeAfter(t, await openForwarder(primary.port));
    // Accepts no connection until it simulates a server that was promoted.
    const other = closeAfter(t, await openForwarder(1));
    const limits = { pingTimeoutMs: 300, waitTimeoutMs: 1_000 };
    const store = await open(t, urlOf(`127.0.0.1:${hanging.port}`, `127.0.0.1:${other.port}`), limits);
    // On a busy machine a call may take longer than its limit here.
    const isConnected = async () => {
      const creations = Array.from({ length: 10 }, () => kindOf(store.users.create({ name: 'Ada' })));
      const isOpen = (await Promise.all(creations)).every((kind) => kind === 'none');
      return isOpen && (await kindOf(store.ping())) === 'none';
    };
    await until(isConnected, 'all connections are open', 60_000);
    hanging.freeze();
    const calls = Array.from({ length: 20 }, () => timed(kindOf(store.users.create({ name: 'lost' }))));
    for (const { result, ms } of await Promise.all(calls)) {
      assert.equal(result, 'unavailable');
      assert.ok(ms < 5_000, `took ${ms} ms`);
    }
    other.moveTo(primary.port);
    const create = async () => (await kindOf(store.users.create({ name: 'Bob' }))) === 'none';
    // `host-search.test.ts` tests how soon a host is found, with a simulated clock.
    await until(create, 'a write is accepted while the other host still hangs');
  });

  it('leaves a host that hangs even if the only calls are pings', async (t) => {
    const hanging = closeAfter(t, await openForwarder(primary.port));
    const store = await open(t, urlOf(`127.0.0.1:${hanging.port}`, primary), { pingTimeoutMs: 1_000 });
    await store.ping();
    hanging.freeze();
    assert.equal(await kindOf(store.ping()), 'unavailable');
    await until(async () => (await kindOf(store.ping())) === 'none', 'the store is ready');
  });

  it('follows a promotion, and leaves a primary that was demoted', async (t) => {
    const store = await open(t, urlOf(primary, standby));
    const { value } = await store.users.create({ name: 'before' });
    const replicated = `SELECT FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()`;
    await until(async () => (await primary.query(replicated)).length === 1, 'the standby has all changes');
    await primary.stop('immediate');
    assert.equal(await kindOf(store.users.create({ name: 'lost' })), 'unavailable');
    await standby.promote();
    await until(async () => (await kindOf(store.ping())) === 'none', 'the store is ready');
    assert.equal((await store.users.get(value.id))?.name, 'before');
    await store.users.create({ name: 'after' });

    await primary.start();
    await store.users.create({ name: 'at the new primary' });
    assert.equal(await count(standby, 'at the new primary'), 1);
    await standby.query('ALTER SYSTEM SET default_transaction_read_only = on');
    await standby.query('SELECT pg_reload_conf()');
    const isDemoted = async () => {
      const [row] = await standby.query<{ mode: string }>(
        `SELECT current_setting('transaction_read_only') AS mode`,
      );
      return row?.mode === 'on';
    };
    await until(isDemoted, 'the promoted server accepts no more writes');
    await store.users.create({ name: 'at the first again' });
    assert.equal(await count(primary, 'at the first again'), 1);
  });
});
