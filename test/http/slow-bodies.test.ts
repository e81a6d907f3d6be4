import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { head, post, Wire } from '../kit/wire.ts';
import { gatedRepository } from '../support/gated.ts';
import { startService } from '../support/service.ts';

const maxInFlight = 2;
const json = 'Content-Type: application/json';
const ada = '{"name":"Ada"}';
// On a slow machine a body may be on its way for longer than the usual limit.
const timeouts = { requestTimeoutMs: 0 };

/** Clients that have sent the head of a POST and the first byte of its body. */
async function startSlow(t: TestContext, port: number, count: number): Promise<Wire[]> {
  const wires = await Promise.all(Array.from({ length: count }, () => Wire.open(t, port)));
  for (const wire of wires)
    wire.write(head('POST /users', json, `Content-Length: ${ada.length}`), ada[0] ?? '');
  await underWay(t, port, (under) => under === count);
  return wires;
}

/** Resolves when `isWanted` accepts the number of requests in flight, without its own. */
async function underWay(t: TestContext, port: number, isWanted: (count: number) => boolean): Promise<void> {
  const wire = await Wire.open(t, port);
  let count: number;
  do {
    const { body } = await wire.write(head('GET /metrics')).next();
    count = Number(/in_flight\{face="http"\} (\d+)/.exec(body)?.[1]) - 1;
  } while (!isWanted(count));
  wire.socket.destroy();
}

test('requests with incomplete bodies do not count towards maxInFlight', async (t) => {
  const { port } = await startService(t, { timeouts, limits: { maxInFlight } });
  const slow = await startSlow(t, port, 50);
  const wire = await Wire.open(t, port);
  for (let i = 0; i < 5; i += 1) {
    assert.equal((await wire.write(head('GET /users')).next()).status, 200);
    assert.equal((await wire.write(post('/users', ada)).next()).status, 201);
  }
  for (const one of slow) {
    assert.equal((await one.write(ada.slice(1)).next()).status, 201);
  }
  await underWay(t, port, (under) => under === 0);
  assert.equal((await wire.write(head('GET /users')).next()).status, 200);
});

test('requests that were rejected before their body arrives do not count towards maxInFlight', async (t) => {
  const { port } = await startService(t, { timeouts, limits: { maxInFlight } });
  const wires = await Promise.all(Array.from({ length: maxInFlight }, () => Wire.open(t, port)));
  // The connections stay open for a second, so that their clients can send the body.
  t.mock.timers.enable({ apis: ['setInterval'] });
  for (const wire of wires) wire.write(head('POST /users', json, 'Content-Length: 1000000'));
  for (const wire of wires) assert.equal((await wire.next()).status, 413);
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write(head('GET /users')).next()).status, 200);
});

test('a request whose body is complete while maxInFlight is reached returns 503, and its connection stays open', async (t) => {
  const { repository, open, entered } = await gatedRepository();
  t.after(open);
  const options = { repository, timeouts, limits: { maxInFlight }, expectFailures: true };
  const { port } = await startService(t, options);
  const [slow] = await startSlow(t, port, 1);
  const holders = await Promise.all(Array.from({ length: maxInFlight }, () => Wire.open(t, port)));
  for (const holder of holders) holder.write(head('GET /users/1'));
  await entered;
  await underWay(t, port, (under) => under === 1 + maxInFlight);
  const refused = await slow?.write(ada.slice(1)).next();
  assert.deepEqual([refused?.status, refused?.headers['retry-after']], [503, '1']);
  open();
  for (const holder of holders) assert.equal((await holder.next()).status, 200);
  assert.equal((await slow?.write(post('/users', ada)).next())?.status, 201);
});

test('clients that disconnect before, during or after their body do not stay counted as in flight', async (t) => {
  const { port } = await startService(t, { timeouts, limits: { maxInFlight }, expectFailures: true });
  for (const rest of ['', ada.slice(1, 5), ada.slice(1)]) {
    const slow = await startSlow(t, port, 5);
    for (const one of slow) {
      one.write(rest);
      one.socket.destroySoon();
    }
    await underWay(t, port, (under) => under === 0);
  }
  const wires = await Promise.all(Array.from({ length: maxInFlight }, () => Wire.open(t, port)));
  for (const wire of wires) wire.write(head('GET /users'));
  for (const wire of wires) assert.equal((await wire.next()).status, 200);
});

test('the memory of all incomplete long bodies is limited, and short bodies are still accepted', async (t) => {
  const { port, events } = await startService(t, { timeouts });
  // A body that is no JSON is rejected only when it is complete, without the work of returning it.
  const most = Buffer.alloc(1024 * 1024 - 2, 'a');
  const wires = await Promise.all(Array.from({ length: 80 }, () => Wire.open(t, port)));
  // Send each body without its end. About 60 of them fit into the memory.
  for (const wire of wires) wire.write(head('POST /echo', json, `Content-Length: ${most.length + 2}`), most);
  const answers = wires.map((wire) => wire.next());
  const refused = await Promise.race(answers);
  assert.equal(refused.status, 503);
  assert.deepEqual(JSON.parse(refused.body), { error: 'too many bodies are being received' });
  const reason = 'too much waits for slow clients';
  assert.ok(events.some((event) => event.type === 'refused' && event.reason === reason));
  // Together they need more than the memory that is left.
  const short = await Promise.all(Array.from({ length: 100 }, () => Wire.open(t, port)));
  const text = `"${'a'.repeat(14_000)}"`;
  for (const wire of short) {
    wire.write(head('POST /echo', json, `Content-Length: ${text.length}`), text.slice(0, -1));
  }
  await underWay(t, port, (under) => under >= 160);
  for (const wire of short) assert.equal((await wire.write('"').next()).status, 200);
  for (const wire of wires) wire.write('aa');
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  assert.ok(statuses.filter((status) => status === 400).length >= 60, `${statuses}`);
  for (const wire of wires.filter((_, i) => statuses[i] === 400)) {
    assert.equal((await wire.write(head('GET /health')).next()).status, 200);
  }
  assert.equal(
    (await short[0]?.write(post('/echo', `"${most.subarray(2)}"`)).next())?.status,
    200,
    'a long body is accepted again',
  );
  const cut = statuses.filter((status) => status === 503).length;
  const reported = events.filter((event) => event.type === 'request' && event.status === 503).length;
  assert.equal(reported, cut, 'each request that was cut is also reported as a request');
});

test('bodies in chunks of one byte need little more memory than their bytes', async (t) => {
  const { port } = await startService(t, { timeouts });
  const wires = await Promise.all(Array.from({ length: 2 }, () => Wire.open(t, port)));
  // As a Buffer each, these chunks would need more memory than all bodies may.
  const bytes = `1\r\n"\r\n${'1\r\na\r\n'.repeat(150_000)}1\r\n"\r\n0\r\n\r\n`;
  for (const wire of wires) wire.write(head('POST /echo', json, 'Transfer-Encoding: chunked'), bytes);
  for (const { status } of await Promise.all(wires.map((wire) => wire.next()))) assert.equal(status, 200);
});
