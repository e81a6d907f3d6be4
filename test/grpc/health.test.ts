import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { type TestContext, test } from 'node:test';
import {
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type Server,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { service as healthService } from 'grpc-health-check';
import { addHealth, type OpenStreams } from '../../src/grpc/standard-services.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { holdPauses } from '../support/pauses.ts';
import { startService } from '../support/service.ts';
import { stubStore } from '../support/stub-store.ts';

interface HealthStatus {
  readonly status: string;
}

type Method = NonNullable<(typeof healthService)[string]>;

function method(name: 'Check' | 'Watch' | 'List'): Method {
  const { [name]: definition } = healthService;
  assert.ok(definition !== undefined);
  return definition;
}

function healthClient(t: TestContext, address: string): Client {
  const client = new Client(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  t.after(() => client.close());
  return client;
}

/** Calls a unary method of the health service; resolves to its answer or to its status. */
function call(client: Client, name: 'Check' | 'List', request: object): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const { path, requestSerialize, responseDeserialize } = method(name);
  client.makeUnaryRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    (error: ServiceError | null, value) =>
      resolve(error === null ? value : { code: error.code, details: error.details }),
  );
  return promise;
}

function watch(client: Client, service: string): ClientReadableStream<HealthStatus> {
  const { path, requestSerialize, responseDeserialize } = method('Watch');
  const types = [requestSerialize, responseDeserialize] as const;
  const stream = client.makeServerStreamRequest(path, ...types, { service }, new Metadata());
  stream.on('error', () => undefined);
  return stream as ClientReadableStream<HealthStatus>;
}

async function next(stream: ClientReadableStream<HealthStatus>): Promise<string> {
  const [message]: HealthStatus[] = await once(stream, 'data');
  return message?.status ?? '';
}

for (const service of ['', 'Users']) {
  test(`Check and Watch of ${JSON.stringify(service)} return SERVING, and NOT_SERVING while the service drains`, async (t) => {
    const endDelay = holdPauses(t);
    const running = await startService(t, { grpcPort: 0, drainDelayMs: 60_000 });
    const client = healthClient(t, running.grpc);
    assert.deepEqual(await call(client, 'Check', { service }), { status: 'SERVING' });
    const stream = watch(client, service);
    assert.equal(await next(stream), 'SERVING');

    const ended = once(stream, 'status');
    const nextStatus = next(stream);
    const closing = running.service.close({ timeoutMs: 30_000 });
    assert.equal(await nextStatus, 'NOT_SERVING');
    assert.deepEqual(await call(client, 'Check', { service }), { status: 'NOT_SERVING' });
    const endedAt = performance.now();
    endDelay();
    const [{ code }] = await ended;
    assert.equal(code, status.OK, 'a watch ends with OK and does not delay close');
    await closing;
    assert.ok(performance.now() - endedAt < 20_000);
  });
}

test('List of grpc.health.v1 returns the status of the server and of Users', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  assert.deepEqual(await call(healthClient(t, grpc), 'List', {}), {
    statuses: { '': { status: 'SERVING' }, Users: { status: 'SERVING' } },
  });
});

test('for an unknown service, Check returns NOT_FOUND and Watch SERVICE_UNKNOWN', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  const client = healthClient(t, grpc);
  for (const service of ['users', 'grpc.health.v1.Health', '__proto__', 'x'.repeat(400)]) {
    const details = `Health status unknown for service ${service}`;
    assert.deepEqual(await call(client, 'Check', { service }), { code: status.NOT_FOUND, details });
    const stream = watch(client, service);
    assert.equal(await next(stream), 'SERVICE_UNKNOWN');
    stream.cancel();
  }
});

test('an error message with a very long name is cut, and other calls on its connection go on', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  const client = healthClient(t, grpc);
  const stream = watch(client, 'Users');
  await next(stream);
  let isOpen = true;
  stream.on('status', () => {
    isOpen = false;
  });
  // Each of these characters has nine bytes in a header, and the cut is within one of them.
  for (const name of ['\ufffd'.repeat(20_000), `x${'\u{1f600}'.repeat(10_000)}`]) {
    const { code, details } = (await call(client, 'Check', { service: name })) as ServiceError;
    assert.equal(code, status.NOT_FOUND);
    assert.ok(details.startsWith(`Health status unknown for service ${name.slice(0, 99)}`), details);
  }
  assert.equal(isOpen, true, 'the watch has ended');
  stream.cancel();
});

test('the gRPC health service needs no API key, with any setting of auth', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0, auth: 'all', apiKeys: ['k'] });
  assert.deepEqual(await call(healthClient(t, grpc), 'Check', { service: 'Users' }), { status: 'SERVING' });
});

test('the duration of a watch is not a latency in the metrics, and that of a check is', async (t) => {
  const ended = Promise.withResolvers<void>();
  const observe = (event: ServiceEvent) =>
    event.type === 'request' && event.path.endsWith('/Watch') && ended.resolve();
  const { grpc, service } = await startService(t, { grpcPort: 0, observe });
  const client = healthClient(t, grpc);
  await call(client, 'Check', { service: 'Users' });
  const stream = watch(client, 'Users');
  await next(stream);
  stream.cancel();
  await ended.promise;
  for (const [name, latencies] of [
    ['Check', 1],
    ['Watch', 0],
  ]) {
    const path = `/grpc.health.v1.Health/${name}`;
    const metrics = service.metrics();
    assert.match(metrics, new RegExp(`^users_service_requests_total\\{.*"${path}".*\\} 1$`, 'm'));
    assert.match(metrics, new RegExp(`_seconds_count\\{face="grpc",route="${path}"\\} ${latencies}$`, 'm'));
  }
});

test('the gRPC health service does not call the store', async (t) => {
  const repository = stubStore((name) => assert.fail(`the store's ${name} was called`));
  const { grpc } = await startService(t, { grpcPort: 0, repository });
  assert.deepEqual(await call(healthClient(t, grpc), 'Check', { service: '' }), { status: 'SERVING' });
});

test('100 watches that have ended do not delay close', async (t) => {
  const { grpc, service } = await startService(t, { grpcPort: 0 });
  const client = healthClient(t, grpc);
  for (let i = 0; i < 100; i += 1) {
    const stream = watch(client, 'Users');
    await next(stream);
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.on('status', () => resolve());
    stream.cancel();
    await promise;
  }
  const startedAt = performance.now();
  await service.close({ timeoutMs: 30_000 });
  assert.ok(performance.now() - startedAt < 20_000);
});

test('a watch that its client has cancelled is not kept until the server ends its watches', () => {
  const watches: ((call: object) => void)[] = [];
  const addService = (_: object, { watch }: { watch: (call: object) => void }) => watches.push(watch);
  const streams: OpenStreams = new Set();
  addHealth({ addService } as unknown as Server, streams);
  const ended: string[] = [];
  const open = (name: string) => {
    const end = () => ended.push(name);
    const call = Object.assign(new EventEmitter(), { request: { service: '' }, write: () => true, end });
    for (const watch of watches) watch(call);
    return call;
  };
  open('running');
  open('cancelled').emit('cancelled');
  for (const end of streams) end();
  assert.deepEqual(ended, ['running']);
});
