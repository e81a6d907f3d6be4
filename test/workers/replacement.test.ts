import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { status } from '@grpc/grpc-js';
import { getUser, usersClient } from '../kit/grpc.ts';
import { printed, type ServiceProcess } from '../kit/process.ts';
import { createCertificate } from '../support/certificate.ts';
import { fetch } from '../support/fetch.ts';
import { create, start, workersOf } from './pool.ts';

/** Sends requests to both APIs over keep-alive connections. The result stops them and returns failures. */
function load(t: TestContext, { http, grpc }: ServiceProcess) {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const clients = [usersClient(t, grpc), usersClient(t, grpc)];
  t.after(() => agent.destroy());
  const failures: unknown[] = [];
  let stopped = false;
  let requests = 0;
  const repeat = async (work: () => Promise<void>) => {
    while (!stopped) {
      await work().catch((error) => failures.push(error));
      requests += 1;
    }
  };
  const overHttp = async () => {
    const sent = request(`${http}/users/1`, { agent }).end();
    const [response] = await once(sent, 'response');
    await response.resume().toArray();
    if (response.statusCode !== 200) failures.push(response.statusCode);
  };
  const overGrpc = (client: (typeof clients)[number]) => async () => {
    const { code, details } = await getUser(client, 1, { deadline: Date.now() + 10_000 });
    if (code !== status.OK) failures.push([code, details]);
  };
  const loops = [...Array.from({ length: 4 }, () => overHttp), ...clients.map(overGrpc)].map(repeat);
  return async () => {
    stopped = true;
    await Promise.all(loops);
    assert.ok(requests > 20, `${requests} requests`);
    return failures;
  };
}

describe('the replacement of workers', () => {
  it('workers are replaced one by one on SIGHUP without failing a request', async (t) => {
    const running = await start(t);
    await create(running.http, 'Ada');
    const before = await workersOf(running);
    const stop = load(t, running);
    running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    assert.deepEqual(await stop(), []);
    const after = await workersOf(running);
    assert.equal(after.length, 2);
    assert.deepEqual(
      after.filter((pid) => before.includes(pid)),
      [],
    );
    assert.equal(await running.end(), 0);
  });

  it('workers are replaced only once more when SIGHUP arrives several times during a replacement', async (t) => {
    const running = await start(t);
    for (let n = 0; n < 5; n += 1) running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    assert.equal((await workersOf(running)).length, 2);
    assert.equal(await running.end(), 0);
    assert.equal(running.lines.filter(({ event }) => event === 'reloaded').length, 1);
  });

  it('workers keep serving when their replacements cannot start', async (t) => {
    const pages = await mkdtemp(join(tmpdir(), 'pages-'));
    t.after(() => rm(pages, { recursive: true, force: true }));
    const running = await start(t, '--public', pages);
    const before = await workersOf(running);
    await rename(pages, `${pages}.away`);
    running.child.kill('SIGHUP');
    await printed(running, 'failure');
    assert.deepEqual(await workersOf(running), before);
    assert.equal((await fetch(`${running.http}/health`)).status, 200);
    await rename(`${pages}.away`, pages);
    running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    assert.equal(await running.end(), 0);
  });

  it('workers keep serving while the certificate is missing, and are replaced when it is back', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'tls-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const pair = createCertificate();
    await writeFile(cert, pair.cert);
    await writeFile(key, pair.key);
    const running = await start(t, '--tls-cert', cert, '--tls-key', key);
    const before = await workersOf(running);
    await rename(cert, `${cert}.away`);
    running.child.kill('SIGHUP');
    await printed(running, 'failure');
    assert.deepEqual(await workersOf(running), before);
    await rename(`${cert}.away`, cert);
    running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    assert.equal(await running.end(), 0);
  });
});
