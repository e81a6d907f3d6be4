import assert from 'node:assert/strict';
import dns from 'node:dns';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { status } from '@grpc/grpc-js';
import { HttpServer } from '../../src/http/server.ts';
import { StartError } from '../../src/service/ports.ts';
import { createService, type Service, type ServiceOptions } from '../../src/service/service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { fetch } from '../support/fetch.ts';
import { listen } from '../support/listen.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** A service with a memory store on free ports, not yet started. */
function make(options: ServiceOptions = {}): { service: Service; events: ServiceEvent[] } {
  const events: ServiceEvent[] = [];
  const service = createService({
    database: 'memory:',
    port: 0,
    grpcPort: 0,
    observe: (event) => events.push(event),
    ...options,
  });
  return { service, events };
}

function types(events: readonly ServiceEvent[]): string[] {
  return events.map(({ type }) => type);
}

async function takePort(t: TestContext): Promise<{ server: Server; port: number }> {
  const server = createServer();
  const { port } = await listen(t, server);
  return { server, port };
}

/** Lets the HTTP port of each service fail after it has closed. */
function failToClose(t: TestContext): void {
  const { close } = HttpServer.prototype;
  t.mock.method(
    HttpServer.prototype,
    'close',
    async function (this: HttpServer, ...given: Parameters<typeof close>) {
      await Reflect.apply(close, this, given);
      throw new Error('cannot be closed');
    },
  );
}

/** Resolves when the port can be opened again. */
async function assertFree(port: number): Promise<void> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
}

describe('listen', () => {
  it('opens both ports and reports them once', async (t) => {
    const { service, events } = make();
    t.after(() => service.close());
    const { http, grpc = '' } = await service.listen();
    assert.equal((await fetch(`${http}/health/ready`)).status, 200);
    assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.NOT_FOUND);
    const files = events[0]?.type === 'listening' ? (events[0].files ?? 0) : 0;
    assert.ok(files > 0, 'the console is not served');
    assert.deepEqual(events[0], { type: 'listening', http, grpc, files });
    await assert.rejects(service.listen(), /listens once/);
  });

  it('reports a database file that it has created, but not one that exists', async () => {
    const path = join(temporaryFolder(), 'users.db');
    const created: ServiceEvent = { type: 'created', path };
    for (const expected of [[created], []]) {
      const { service, events } = make({ database: `sqlite:${path}`, grpcPort: false });
      await service.listen();
      await service.close();
      assert.deepEqual(
        events.filter(({ type }) => type === 'created'),
        expected,
      );
    }
  });

  it('serves the HTTP API below a basePath only', async (t) => {
    const { service } = make({ basePath: '/api' });
    t.after(() => service.close());
    const { http } = await service.listen();
    assert.equal((await fetch(`${http}/api/health/ready`, {}, '/api')).status, 200);
    assert.equal((await fetch(`${http}/api/`, {}, '/api')).status, 200, 'the console must be there too');
    assert.equal((await fetch(`${http}/info`)).status, 404);
  });

  it('has no gRPC API when it is off', async (t) => {
    const { service } = make({ grpcPort: false });
    t.after(() => service.close());
    assert.deepEqual(Object.keys(await service.listen()), ['http']);
  });

  it('serves IPv6, with brackets in its address', async (t) => {
    const { service } = make({ host: '::1' });
    t.after(() => service.close());
    const { http, grpc = '' } = await service.listen();
    assert.match(http, /^http:\/\/\[::1\]:\d+$/);
    assert.match(grpc, /^\[::1\]:\d+$/);
    assert.equal((await fetch(`${http}/health`)).status, 200);
    assert.equal((await getUser(usersClient(t, grpc), 1)).code, status.NOT_FOUND);
  });

  const failures: [name: string, options: ServiceOptions, option: string, message: RegExp][] = [
    ['an unknown host', { host: 'nobody.invalid' }, 'host', /^the host name nobody.invalid is not known$/],
    ['a host of another machine', { host: '192.0.2.1' }, 'host', /^192.0.2.1 is not an address of this/],
    ['a missing public folder', { publicDir: '/nowhere' }, 'publicDir', /ENOENT.*\/nowhere/],
    ['a public folder that Node.js rejects', { publicDir: 'a\0b' }, 'publicDir', /null bytes/],
    ['an invalid certificate', { tls: { cert: 'x', key: 'y' } }, 'tls', /PEM/],
    ['a database that cannot be opened', { database: 'sqlite:/dev/null/x.db' }, 'database', /\/dev\/null/],
    [
      'a file for the certificates of standbys that is missing',
      { database: 'postgres://h/x', readDatabase: 'postgres://h/x?sslrootcert=/nowhere.pem' },
      'readDatabase',
      /^readDatabase cannot be used: .*\/nowhere.pem/,
    ],
    [
      'standbys of a store in memory',
      { readDatabase: 'postgres://h/x' },
      'readDatabase',
      /^readDatabase must be standbys/,
    ],
    ['a database that does not answer', { database: 'postgres://u:secret@127.0.0.1:1/x' }, 'database', /:1 /],
  ];
  for (const [name, options, option, message] of failures) {
    it(`with ${name} fails with the name of the option ${option} and without secrets`, async () => {
      const { service, events } = make(options);
      await assert.rejects(service.listen(), (error) => {
        assert.ok(error instanceof StartError, String(error));
        assert.equal(error.option, option);
        assert.match(error.message, message);
        assert.doesNotMatch(error.message, /secret|\n/);
        return true;
      });
      await service.close();
      assert.deepEqual(types(events), [], 'a service that did not listen reports no drain or close');
    });
  }

  it('with an HTTP port in use fails and opens no port', async (t) => {
    const { port } = await takePort(t);
    const { service, events } = make({ port });
    const message = `127.0.0.1:${port} is in use`;
    await assert.rejects(service.listen(), { name: 'StartError', option: 'port', message });
    assert.deepEqual(types(events), [], 'only an open port reports its errors as failures');
  });

  it('with a gRPC port in use fails and closes the HTTP port and the store', async (t) => {
    const { port: grpcPort } = await takePort(t);
    const { server, port } = await takePort(t);
    server.close();
    await once(server, 'close');
    const { service, events } = make({ port, grpcPort });
    await assert.rejects(service.listen(), {
      option: 'grpcPort',
      message: `127.0.0.1:${grpcPort} is in use`,
    });
    assert.deepEqual(types(events), [], 'only an open port reports its errors as failures');
    await assertFree(port);
    await service.close();
    await assert.rejects(service.listen(), /listens once, and not after close/);
  });

  it('with a gRPC port in use fails for this reason although the HTTP port cannot be closed', async (t) => {
    const { port: grpcPort } = await takePort(t);
    failToClose(t);
    const { service } = make({ grpcPort });
    await assert.rejects(service.listen(), { message: `127.0.0.1:${grpcPort} is in use` });
  });

  const objects = { repository: {}, observe: console, tls: { cert: 'x' } };
  const wrong = { ...objects, renderMetrics: 1, publicDir: '' };
  for (const [option, given] of Object.entries(wrong)) {
    it(`is not reached because createService rejects a wrong ${option}`, () => {
      const options = { [option]: given } as ServiceOptions;
      assert.throws(() => createService(options), {
        name: 'TypeError',
        message: new RegExp(`^${option} must be`),
      });
    });
  }

  it('is not reached because createService rejects readDatabase for an open store', () => {
    const options = { repository: createMemoryStore(), readDatabase: 'postgres://h/x' };
    const error = { name: 'TypeError', message: 'readDatabase needs database, not repository' };
    assert.throws(() => createService(options), error);
  });

  it('uses the options as they were when the service was created', async (t) => {
    const { port } = await takePort(t);
    const options: ServiceOptions & { port: number } = { database: 'memory:', port: 0, grpcPort: false };
    const service = createService(options);
    t.after(() => service.close());
    options.port = port;
    const { http } = await service.listen();
    assert.notEqual(new URL(http).port, String(port));
  });
});

describe('close', () => {
  it('before listen prevents a later start', async () => {
    const { service, events } = make();
    await service.close();
    await assert.rejects(service.listen());
    assert.deepEqual(types(events), []);
  });

  it('rejects an invalid timeoutMs, and leaves the service open', async (t) => {
    const { service } = make();
    t.after(() => service.close());
    for (const timeoutMs of [-1, 1.5, Number.NaN]) {
      await assert.rejects(
        service.close({ timeoutMs }),
        /^RangeError: timeoutMs must be a whole number from 0 to/,
      );
    }
    await service.listen();
  });

  it('during listen waits for the start, and then closes the service', async () => {
    const { service, events } = make();
    const listening = service.listen();
    await service.close();
    const { http } = await listening;
    assert.deepEqual(types(events), ['listening', 'draining', 'closed']);
    await assert.rejects(fetch(`${http}/health`));
  });

  it('during listen serves for the delay before it drains', async () => {
    const { service } = make({ drainDelayMs: 300 });
    const listening = service.listen();
    const closing = service.close();
    await listening;
    const startedAt = performance.now();
    await closing;
    // The delay begins at the time when the event loop last woke up, which may be earlier.
    assert.ok(performance.now() - startedAt > 90);
  });

  for (const [closing, timeouts, waiting] of [
    ['ends in time although a port waits', [1], 1],
    ['and again with a shorter limit ends in that time although a port waits', [60_000, 1], 1],
    ['ends in time although only the second port waits', [1], 2],
  ] as const) {
    it(`during listen ${closing} for DNS, and then listen fails`, async (t) => {
      const { lookup } = dns;
      const { promise: asked, resolve: ask } = Promise.withResolvers<() => void>();
      let lookups = 0;
      t.mock.method(dns, 'lookup', (_name: string, ...rest: unknown[]) => {
        lookups += 1;
        const answer = () => Reflect.apply(lookup, dns, ['127.0.0.1', ...rest]);
        if (lookups < waiting) answer();
        else ask(answer);
      });
      const { service, events } = make({ host: 'users.test', ...(waiting === 1 && { grpcPort: false }) });
      const message = 'the service was closed during its start';
      const failing = assert.rejects(service.listen(), { message });
      const answer = await asked;
      await Promise.all(timeouts.map((timeoutMs) => service.close({ timeoutMs })));
      answer();
      await failing;
      assert.deepEqual(types(events), []);
    });
  }

  it('during listen leaves no timer', async () => {
    const countTimers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const { service } = make();
    const before = countTimers();
    await Promise.all([service.listen(), service.close()]);
    assert.equal(countTimers(), before);
  });

  it('during a listen that fails resolves after everything is released', async (t) => {
    const { port: grpcPort } = await takePort(t);
    const file = join(await temporaryFolder(), 'users.db');
    const { service } = make({ grpcPort, database: `sqlite:${file}` });
    const listening = assert.rejects(service.listen());
    await service.close();
    assert.ok(existsSync(file), 'the start failed before it opened the store');
    assert.ok(!existsSync(`${file}-wal`), 'the store is still open');
    await listening;
  });

  it('closes once when it is called repeatedly or concurrently', async () => {
    const { service, events } = make();
    await service.listen();
    await Promise.all([service.close(), service.close(), service[Symbol.asyncDispose]()]);
    await service.close();
    assert.deepEqual(types(events), ['listening', 'draining', 'closed']);
  });

  it('reports its end also if a port fails to close', async (t) => {
    failToClose(t);
    const { service, events } = make();
    await service.listen();
    await assert.rejects(service.close(), /cannot be closed/);
    assert.deepEqual(types(events), ['listening', 'draining', 'closed']);
  });

  it('also waits for the end when an observer calls it at the event of draining', async () => {
    const seen: string[] = [];
    let inner: Promise<unknown> | undefined;
    const { service } = make({
      observe({ type }) {
        seen.push(type);
        if (type === 'draining') inner = service.close().then(() => seen.push('resolved'));
      },
    });
    await service.listen();
    await service.close();
    await inner;
    assert.deepEqual(seen, ['listening', 'draining', 'closed', 'resolved']);
  });

  it('is called at the end of an await using block', async () => {
    const { service, events } = make();
    {
      await using running = service;
      await running.listen();
    }
    assert.deepEqual(types(events), ['listening', 'draining', 'closed']);
  });

  it('does not close a store that was passed in', async () => {
    const repository = createMemoryStore();
    const { service } = make({ repository });
    await service.listen();
    await service.close();
    await repository.ping();
    await repository.close();
  });

  it('does not affect another service in the same process', async (t) => {
    const [one, other] = [make().service, make().service];
    t.after(() => other.close());
    const [first, second] = await Promise.all([one.listen(), other.listen()]);
    assert.notEqual(first.http, second.http);
    const client = usersClient(t, second.grpc ?? '');
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);
    await one.close();
    await assert.rejects(fetch(`${first.http}/health`));
    assert.equal((await fetch(`${second.http}/health/ready`)).status, 200);
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);
  });
});
