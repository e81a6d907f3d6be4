import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type ClientModule, loadModule } from './modules.ts';

const { createClient, sendWithId, isOwnRequest } = loadModule<ClientModule>('console/api/client.js');
const connection = { lost: () => assert.fail('an outage was reported'), answering: () => Promise.resolve() };
const log = { start: () => ({ end: () => undefined, cancel: () => undefined }) };

/** The address of a server with this listener. */
async function serve(t: TestContext, listener: RequestListener): Promise<URL> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  t.after(() => server.close().closeAllConnections());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return new URL(`http://127.0.0.1:${port}/users`);
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
