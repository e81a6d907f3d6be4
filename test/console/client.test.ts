import assert from 'node:assert/strict';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { listen } from '../support/listen.ts';
import { type ClientModule, type ConnectionModule, loadModule } from './modules.ts';

const { createClient, sendWithId, isOwnRequest } = loadModule<ClientModule>('console/api/client.js');
const { receive, Connection } = loadModule<ConnectionModule>('console/api/connection.js');
const connection = { lost: () => assert.fail('an outage was reported'), answering: () => Promise.resolve() };
const log = { start: () => ({ end: () => undefined, cancel: () => undefined }) };

/** The address of a server with this listener. */
async function serve(t: TestContext, listener: RequestListener): Promise<URL> {
  return new URL('/users', (await listen(t, createServer(listener))).http);
}

test('console: a cancelled request does not report an outage', async (t) => {
  const cancelled = new AbortController();
  const url = await serve(t, () => cancelled.abort());
  const apiKey = { value: undefined, ask: async () => false };
  const sent = createClient({ connection, apiKey, log })({ method: 'GET', url, signal: cancelled.signal });
  await assert.rejects(sent, { name: 'AbortError' });
});

test('console: a request that was rejected is sent with the key that was entered meanwhile', async (t) => {
  const apiKey: { value: string | undefined; ask(): Promise<boolean> } = {
    value: undefined,
    ask: async () => assert.fail('the console asked for a key again'),
  };
  const url = await serve(t, ({ headers }, response) => {
    apiKey.value = 'key';
    response.writeHead(headers['x-api-key'] === 'key' ? 200 : 401).end('{}');
  });
  const { status } = await createClient({ connection, apiKey, log })({ method: 'GET', url });
  assert.equal(status, 200);
});

test('console: a write without a response is remembered for its change, and a read is not', async () => {
  for (const [method, isOwn] of [
    ['GET', true],
    ['PATCH', false],
  ] as const) {
    const ids: string[] = [];
    const lost = sendWithId(method, async (id) => {
      ids.push(id);
      throw new Error('lost');
    });
    await assert.rejects(lost, /lost/);
    assert.equal(await isOwnRequest(ids.join()), isOwn, method);
  }
});

for (const [title, silentMs, ends] of [
  ['is read although all of it takes longer than the longest silence', 9_000, true],
  ['fails after the longest silence', 10_000, false],
] as const) {
  test(`console: a long response ${title}`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const url = await serve(t, (_, response) => {
      response.write('0');
      answered.resolve(response);
    });
    const answered = Promise.withResolvers<ServerResponse>();
    const read = receive(url, { signal: undefined }, 10_000, async (_, parts) => {
      let text = '';
      for await (const part of parts) {
        text += part;
        t.mock.timers.tick(silentMs);
        if (text.length < 4) (await answered.promise).write(String(text.length));
        else (await answered.promise).end();
      }
      return text;
    });
    if (ends) assert.equal(await read, '0123');
    else await assert.rejects(read, { name: 'AbortError' });
  });
}

test('console: a service whose probe fails is not away while parts of a long response arrive', async (t) => {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const received = Promise.withResolvers<void>();
  let probes = 0;
  t.mock.method(globalThis, 'fetch', async (url: URL) => {
    if (!url.pathname.endsWith('/health')) return new Response(readable);
    probes += 1;
    if (probes === 1) {
      await writer.write(Buffer.from('part'));
      await received.promise;
    }
    return new Response('', { status: probes === 1 ? 504 : 200 });
  });
  const url = new URL('http://127.0.0.1/users');
  const read = receive(url, { signal: undefined }, 60_000, async (_, parts) => {
    for await (const part of parts) received.resolve(assert.equal(part, 'part'));
  });
  const service = new Connection();
  service.addEventListener('away', () => assert.fail('an outage was reported'));
  service.lost();
  await service.answering();
  assert.equal(probes, 1);
  await writer.close();
  await read;
});

for (const status of [404, 429]) {
  test(`console: a service is not away because a proxy responds ${status} to its probe`, async (t) => {
    const statuses = [status, 200];
    t.mock.method(globalThis, 'fetch', async () => new Response('', { status: statuses.shift() ?? 200 }));
    const service = new Connection();
    let reports = 0;
    service.addEventListener('away', () => reports++);
    service.lost();
    await service.answering();
    assert.equal(reports, 0);
  });
}
