import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { head, Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { type HttpKitOptions, startKit } from '../support/http-kit.ts';

const timeouts = {
  headersTimeoutMs: 200,
  requestTimeoutMs: 30_000,
  keepAliveTimeoutMs: 200,
  checkingIntervalMs: 20,
};

async function start(t: TestContext, options: HttpKitOptions = { timeouts }) {
  const gate = Promise.withResolvers<void>();
  t.after(() => gate.resolve());
  const handlers = {
    'GET /': () => ({ status: 200 }),
    'GET /late': async () => {
      await gate.promise;
      return { status: 200 };
    },
  };
  return { ...(await startKit(t, handlers, options)), release: gate.resolve };
}

/** Sends a line break every 10 ms until the connection has ended. */
async function drip(socket: Wire['socket']): Promise<void> {
  socket.on('error', () => undefined);
  while (!socket.closed) {
    if (socket.writable) socket.write('\r\n');
    await sleep(10);
  }
}

for (const secure of [false, true]) {
  const over = secure ? ' over TLS' : '';
  test(`line breaks after a request do not keep an idle connection open${over}`, async (t) => {
    const { port } = await start(t, { timeouts, ...(secure && { tls: createCertificate() }) });
    if (secure) {
      const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
      t.after(() => socket.destroy());
      await once(socket, 'secureConnect');
      socket.write(head('GET /'));
      await once(socket, 'data');
      await drip(socket);
    } else {
      const wire = await Wire.open(t, port);
      assert.equal((await wire.write(head('GET /')).next()).status, 200);
      await drip(wire.socket);
      assert.deepEqual(await wire.end(), []);
    }
  });
}

test('line breaks before the first request do not keep an idle connection open', async (t) => {
  const { port } = await start(t);
  const wire = await Wire.open(t, port);
  const dripping = drip(wire.socket);
  assert.equal((await wire.next()).status, 408);
  wire.socket.destroy();
  await dripping;
});

test('a connection with a slow response or with many consecutive requests does not count as idle', async (t) => {
  // By the clock of the machine, these are longer than any pause of this process.
  const slow = { ...timeouts, headersTimeoutMs: 10_000, keepAliveTimeoutMs: 10_000 };
  const { port, release } = await start(t, { timeouts: slow });
  const wire = await Wire.open(t, port);
  wire.write(head('GET /late'));
  const busy = await Wire.open(t, port);
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  // In total longer than both timeouts, with pauses much shorter than each.
  for (let i = 0; i < 10; i += 1) {
    assert.equal((await busy.write(head('GET /')).next()).status, 200);
    now += 4_000;
    // Meanwhile the connections are checked.
    await sleep(2 * timeouts.checkingIntervalMs);
  }
  release();
  assert.equal((await wire.next()).status, 200);
});

const unlimited = [
  ['the head', 'its first request', { headersTimeoutMs: 0 }, 0],
  ['idle connections', 'its next request', { keepAliveTimeoutMs: 0 }, 1],
] as const;

for (const [what, request, given, earlier] of unlimited) {
  test(`without a timeout of ${what}, a connection may send ${request} late`, async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    // By the clock of the machine, these are longer than any pause of this process.
    const long = { ...timeouts, headersTimeoutMs: 10_000, keepAliveTimeoutMs: 10_000, ...given };
    const { port } = await start(t, { timeouts: long });
    const wire = await Wire.open(t, port);
    for (let i = 0; i < earlier; i += 1) assert.equal((await wire.write(head('GET /')).next()).status, 200);
    // The service has accepted the connections before this one.
    const other = await Wire.open(t, port);
    assert.equal((await other.write(head('GET /')).next()).status, 200);
    const later = performance.now() + 3_600_000;
    t.mock.method(performance, 'now', () => later);
    // Now the connections are checked.
    t.mock.timers.tick(timeouts.checkingIntervalMs);
    assert.equal((await wire.write(head('GET /')).next()).status, 200);
  });
}

test('the longest timeout of an idle connection fits into a timer of Node.js', async (t) => {
  const { port } = await start(t, { timeouts: { ...timeouts, keepAliveTimeoutMs: 2_147_483_647 } });
  const warned = once(process, 'warning');
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write(head('GET /')).next()).status, 200);
  assert.equal((await wire.write(head('GET /')).next()).status, 200);
  // A warning is emitted before the next turn of the event loop.
  assert.equal(await Promise.race([warned, nextTurn()]), undefined);
});
