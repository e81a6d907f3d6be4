import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { readOptions } from '../../src/config.ts';
import { Access } from '../../src/domain/access.ts';
import { createHttpApi } from '../../src/rest/app.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { head, Wire } from '../kit/wire.ts';
import { send } from '../support/client.ts';
import { listen } from '../support/listen.ts';
import { startService } from '../support/service.ts';

const reads = ['GET /users', 'GET /health', 'GET /', 'GET /nowhere', 'GET /metrics'];
const lines = [...reads, 'DELETE /users', 'OPTIONS /users'];

test('the headers of every response forbid type sniffing and embedding in pages of other sites', async (t) => {
  const { http } = await startService(t);
  for (const line of lines) {
    const { headers } = await send(http, line);
    assert.equal(headers['x-content-type-options'], 'nosniff', line);
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin', line);
    assert.equal(headers['strict-transport-security'], undefined, line);
  }
});

test('responses to requests that the parser rejects have the security headers too', async (t) => {
  const { port } = await startService(t);
  for (const bytes of ['nonsense\r\n\r\n', head('BREW /'), head('GET /', 'a b: c')]) {
    const { headers } = await (await Wire.open(t, port)).write(bytes).next();
    assert.equal(headers['x-content-type-options'], 'nosniff', bytes);
    assert.equal(headers['cross-origin-resource-policy'], 'same-origin', bytes);
  }
});

test('with the option cors, pages of other origins may also embed responses', async (t) => {
  const { http } = await startService(t, { cors: ['https://app.example'] });
  for (const line of lines) {
    const { headers } = await send(http, line);
    assert.equal(headers['cross-origin-resource-policy'], 'cross-origin', line);
  }
});

/** The Strict-Transport-Security header of a listener for the given host. */
async function hstsOf(t: TestContext, secure: boolean, host: string): Promise<string | null> {
  const { listener } = createHttpApi(
    readOptions({ repository: createMemoryStore(), publicDir: false as const }),
    {
      access: new Access('none', []),
      bound: { host, address: host, secure },
      observe: () => undefined,
      unreadyReason: () => undefined,
      renderMetrics: () => '',
    },
  );
  const { http } = await listen(t, createServer(listener.onRequest));
  const { headers } = await fetch(`${http}/nowhere`);
  return headers.get('strict-transport-security');
}

const hsts: readonly [secure: boolean, host: string, want: string | null][] = [
  [true, '0.0.0.0', 'max-age=31536000'],
  [true, 'users.example', 'max-age=31536000'],
  [true, '127.0.0.1', null],
  [true, 'localhost', null],
  [true, '::1', null],
  [false, '0.0.0.0', null],
];
for (const [secure, host, want] of hsts) {
  const does = want === null ? 'does not require' : 'requires';
  test(`a service on ${host} with${secure ? '' : 'out'} TLS ${does} browsers to use TLS`, async (t) => {
    assert.equal(await hstsOf(t, secure, host), want);
  });
}
