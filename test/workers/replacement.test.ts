import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { it, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { getUser, usersClient } from '../kit/grpc.ts';
import { printed, type ServiceProcess, withoutGrpc } from '../kit/process.ts';
import { post, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { ask, counted, healthOf, portOf, scrape, start, untilWorkers, workersOf } from './pool.ts';

/** Sends requests to both APIs over keep-alive connections. The result stops them and returns failures. */
function load(t: TestContext, { http, grpc }: ServiceProcess) {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const clients = [usersClient(t, grpc), usersClient(t, grpc)];
  const failures: unknown[] = [];
  let stopped = false;
  t.after(() => {
    stopped = true;
    agent.destroy();
  });
  let requests = 0;
  const repeat = async (work: () => Promise<void>) => {
    while (!stopped) {
      await work().catch((error) => failures.push(error));
      requests += 1;
      // Without a pause, the requests would take the processor from the workers that start.
      await delay(20);
    }
  };
  const overHttp = async () => {
    const sent = request(`${http}/users/1`, { agent }).end();
    const [response] = await once(sent, 'response');
    await response.resume().toArray();
    if (response.statusCode !== 200) failures.push(response.statusCode);
  };
  const overGrpc = (client: (typeof clients)[number]) => async () => {
    const { code, details } = await getUser(client, 1, { deadline: Date.now() + 60_000 });
    if (code !== status.OK) failures.push([code, details]);
  };
  const loops = [...Array.from({ length: 4 }, () => overHttp), ...clients.map(overGrpc)].map(repeat);
  return async () => {
    stopped = true;
    await Promise.all(loops);
    agent.destroy();
    for (const client of clients) client.close();
    assert.ok(requests > 20, `${requests} requests`);
    return failures;
  };
}

it('workers are replaced one by one on several SIGHUP, fail no request, and their counts are kept', async (t) => {
  // A slow client may need longer for its next request than a worker usually waits for it.
  const running = await start(t, ['--drain-idle-ms', '10000']);
  const wire = await Wire.open(t, portOf(running));
  const request = post('/users', '{"name":"Ada"}', 'Connection: close');
  assert.equal((await wire.write(request).next()).status, 201);
  await ask(t, running, 12);
  const before = await workersOf(running);
  const stop = load(t, running);
  // The signals that arrive before the first replacement begins share it.
  for (let n = 0; n < 5; n += 1) running.child.kill('SIGHUP');
  await printed(running, 'reloaded');
  await untilWorkers(async () => (await workersOf(running)).length === 2, 'all workers are replaced');
  assert.deepEqual(await stop(), []);
  const after = await workersOf(running);
  const kept = after.filter((pid) => before.includes(pid));
  assert.deepEqual(kept, []);
  // The last worker reports its counters when it stops.
  await counted(t, running, 12);
  assert.equal(healthOf(await scrape(t, running)), 12);
  assert.equal(await running.end(), 0);
});

it('workers keep serving while the public files or the certificate are missing, and their primary warns', async (t) => {
  // An old SQLite is a warning only at the start, and a certificate that ends soon also at each signal.
  const source = `
    import { DatabaseSync } from 'node:sqlite';
    const { prepare } = DatabaseSync.prototype;
    DatabaseSync.prototype.prepare = function (sql, ...rest) {
      const isVersion = sql.startsWith('SELECT sqlite_version()');
      return prepare.call(this, isVersion ? "SELECT '3.51.2' AS version" : sql, ...rest);
    };`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
  const folder = temporaryFolder();
  const [pages, cert, key] = [join(folder, 'pages'), join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const pair = createCertificate('soon', 5.5, 80);
  await mkdir(pages);
  await writeFile(join(pages, 'page.html'), '');
  await writeFile(cert, pair.cert);
  await writeFile(key, pair.key);
  const files = ['--public', pages, '--tls-cert', cert, '--tls-key', key];
  const secured = await start(t, files, env);
  const before = await workersOf(secured);
  for (const [index, missing] of [pages, cert].entries()) {
    await rename(missing, `${missing}.away`);
    secured.child.kill('SIGHUP');
    await printed(secured, 'failure', index + 1);
    // Without the folder, no new worker starts. Without the certificate, the primary does not try.
    await printed(secured, 'warning', 4);
    assert.deepEqual(await workersOf(secured), before);
    const [response] = await once(get(`${secured.http}/health`, { ca: pair.cert }), 'response');
    assert.equal(response.resume().statusCode, 200);
    await rename(`${missing}.away`, missing);
  }
  secured.child.kill('SIGHUP');
  await printed(secured, 'reloaded');
  await printed(secured, 'warning', 5);
  assert.equal(await secured.end(), 0);
  const [, failure] = secured.lines.filter(({ event }) => event === 'failure');
  assert.match(String(failure?.['cause']), /--tls-cert must be a certificate chain .*ENOENT/);
  const warnings = secured.lines.filter(({ event }) => event === 'warning');
  const soon = 'CN=soon is valid for 5 more days; renew it, then send SIGHUP';
  const expected = new RegExp(`${soon}$|^SQLite 3.51.2|^SIGHUP`);
  const found = warnings.map(({ message }) => expected.exec(String(message))?.[0]);
  assert.deepEqual(found, [soon, 'SQLite 3.51.2', 'SIGHUP', soon, soon]);
});

it('a primary ignores messages of workers with other code, which an upgrade or a rollback has put on the disk', async (t) => {
  const source = `
    import cluster from 'node:cluster';
    for (const message of [{ question: 'later' }, { later: true }, 'gather', null]) cluster.worker?.send(message);`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
  const running = await start(t, withoutGrpc, env);
  await ask(t, running, 2);
  running.child.kill('SIGHUP');
  await printed(running, 'reloaded');
  assert.equal(await running.end(), 0);
  assert.deepEqual(
    running.lines.filter(({ event }) => event === 'failure'),
    [],
  );
});
