import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { head, Wire } from '../kit/wire.ts';
import { startKit } from '../support/http-kit.ts';

const idle = { headersTimeoutMs: 200, keepAliveTimeoutMs: 200 };
const timeouts = { ...idle, requestTimeoutMs: 30_000, checkingIntervalMs: 20 };

/** Sends a line break every 10 ms until the connection has ended. */
async function drip(socket: Wire['socket']): Promise<void> {
  socket.on('error', () => undefined);
  while (!socket.closed) {
    if (socket.writable) socket.write('\r\n');
    await sleep(10);
  }
}

test('line breaks before the first request do not keep an idle connection open', async (t) => {
  const { port } = await startKit(t, {}, { timeouts });
  const wire = await Wire.open(t, port);
  const dripping = drip(wire.socket);
  assert.equal((await wire.next()).status, 408);
  wire.socket.destroy();
  await dripping;
});

test('the longest timeout of an idle connection fits into a timer of Node.js', async (t) => {
  const { port } = await startKit(
    t,
    { 'GET /': () => ({ status: 200 }) },
    { timeouts: { ...timeouts, keepAliveTimeoutMs: 2_147_483_647 } },
  );
  const warned = once(process, 'warning');
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write(head('GET /')).next()).status, 200);
  assert.equal((await wire.write(head('GET /')).next()).status, 200);
  // A warning is emitted before the next turn of the event loop.
  assert.equal(await Promise.race([warned, nextTurn()]), undefined);
});
