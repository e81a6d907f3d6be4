import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import { join } from 'node:path';
import { it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { variableOf } from '../../src/commands/settings.ts';
import { optionRows } from '../../src/config.ts';
import { createService, type Service } from '../../src/service/service.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { until } from '../kit/until.ts';
import { countKept } from '../support/garbage.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

// Everything in a process that a library could change or leak.
function traces() {
  return {
    resources: process
      .getActiveResourcesInfo()
      .filter((name) => !/^(PipeWrap|TTYWrap|FSReqCallback|Immediate)$/.test(name))
      .sort(),
    listeners: process.eventNames().map((name) => `${String(name)} ${process.listenerCount(name)}`),
    globals: Object.getOwnPropertyNames(globalThis).length,
    environment: createHash('sha256').update(JSON.stringify(process.env)).digest('hex'),
  };
}

/** Closed handles are removed at the end of a turn of the event loop, after the other side has closed its end too. */
async function settle(): Promise<void> {
  await until(() => !traces().resources.some((name) => name.startsWith('TCP')), 'all connections are closed');
  for (let turns = 0; turns < 3; turns += 1) await turn();
}

async function round(useIt: boolean): Promise<WeakRef<Service>> {
  const service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
  const { http, grpc = '' } = await service.listen();
  const closers: (() => void)[] = [];
  if (useIt) {
    const agent = new Agent({ keepAlive: true });
    const [response] = await once(get(`${http}/users`, { agent }), 'response');
    await response.toArray();
    const client = usersClient({ after: (close) => closers.push(close as () => void) }, grpc);
    await getUser(client, 1);
    closers.push(() => agent.destroy());
  }
  const closing = service.close();
  for (const close of closers) close();
  await closing;
  return new WeakRef(service);
}

it('fifty services that start and close leak no handles, listeners, globals or memory', async () => {
  // The first service loads modules that stay loaded.
  await round(true);
  await settle();
  const before = traces();
  const closed: WeakRef<Service>[] = [];
  for (let n = 0; n < 50; n += 1) closed.push(await round(n % 5 === 0));
  await settle();
  assert.deepEqual(traces(), before);
  assert.equal(await countKept(closed), 0, 'some services are still in memory');
});

it('a running service keeps nothing in memory of connections that have closed', async (t) => {
  await using service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
  const { http, grpc = '' } = await service.listen();
  const accepted: WeakRef<object>[] = [];
  const add = (message: unknown) => void accepted.push(new WeakRef(Object(message).socket));
  subscribe('net.server.socket', add);
  t.after(() => unsubscribe('net.server.socket', add));
  const use = async (): Promise<void> => {
    const [users] = await once(get(`${http}/users`, { agent: false }), 'response');
    const stream = get(`${http}/changes`, { agent: false, headers: { accept: 'text/event-stream' } });
    await once(stream, 'response');
    await users.toArray();
    stream.destroy();
    const client = usersClient(t, grpc);
    await getUser(client, 1);
    client.close();
  };
  // Several at once, because V8 replaces the table of a `Set` when it has grown.
  for (let rounds = 0; rounds < 3; rounds += 1) await Promise.all(Array.from({ length: 10 }, use));
  const isOpen = () => process.getActiveResourcesInfo().includes('TCPSocketWrap');
  await until(() => !isOpen(), 'all connections are closed');
  assert.equal(accepted.length, 90);
  assert.equal(await countKept(accepted), 0, 'some connections are still in memory');
});

it('a service prints no output, handles no signals, and does not keep the process alive after close', async () => {
  const source = JSON.stringify(new URL('../../src/service/service.ts', import.meta.url).href);
  const host = `
    import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createService } from ${source};
    const options = { database: 'memory:', port: 0, grpcPort: 0 };
    const before = process.eventNames().join();
    const service = createService(options);
    const { http } = await service.listen();
    for (const path of ['/boom', '/nowhere', '/users']) await (await fetch(http + path)).text();
    const taken = createService({ ...options, port: Number(new URL(http).port) });
    await taken.listen().catch(() => undefined);
    if (process.eventNames().join() !== before) process.exitCode = 3;
    await service.close();
  `;
  const { code, stdout, stderr } = await runTool(process.execPath, ['--input-type=module', '--eval', host]);
  assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: '', stderr: '' });
});

it('a service without options has the documented defaults, whatever the environment variables are', async () => {
  const folder = temporaryFolder();
  const source = JSON.stringify(new URL('../../src/service/service.ts', import.meta.url).href);
  const host = `
    import { Server } from 'node:net';
    import { createService } from ${source};
    const ports = [];
    const { listen } = Server.prototype;
    // Another program may use the default ports.
    Server.prototype.listen = function ({ host, port, ...others }) {
      ports.push([host, port]);
      return listen.call(this, { ...others, host, port: 0 });
    };
    const service = createService();
    const { http } = await service.listen();
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"Ada"}' };
    const { status } = await fetch(http + '/users', init);
    await service.close();
    console.log(JSON.stringify({ protocol: new URL(http).protocol, ports, status }));
  `;
  const variables = Object.fromEntries(optionRows.map(([flag]) => [variableOf(flag), '1']));
  const { stdout, stderr } = await runTool(process.execPath, ['--input-type=module', '--eval', host], {
    cwd: folder,
    env: { ...process.env, ...variables },
  });
  assert.equal(stderr, '');
  const ports = [
    ['127.0.0.1', 3_000],
    ['127.0.0.1', 50_051],
  ];
  assert.deepEqual(JSON.parse(stdout), { protocol: 'http:', ports, status: 201 });
  assert.deepEqual(await readdir(join(folder, 'data')), ['users.db']);
});
