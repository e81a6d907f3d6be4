import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { PacedSocket } from '../../src/grpc/paced-socket.ts';
import {
  callWire,
  connectFrames,
  connectWire,
  framed,
  headersFrame,
  resetFrame,
} from '../support/grpc-wire.ts';
import { listen } from '../support/listen.ts';
import { startService } from '../support/service.ts';

const kilobytes = (n: number) => Buffer.alloc(n * 1024, 'x');

/** A client, and its connection as the server sees it, with a scheduler that the test controls. */
async function openPair(t: TestContext) {
  const server = createServer({ allowHalfOpen: true });
  const { port } = await listen(t, server);
  const client = connect(port, '127.0.0.1').on('error', () => undefined);
  const [socket] = await once(server, 'connection');
  socket.on('error', () => undefined);
  const turns: (() => void)[] = [];
  const pacer = {
    free: true,
    admit: () => pacer.free,
    pause: () => new Promise<void>((resolve) => void turns.push(resolve)),
  };
  const paced = new PacedSocket(socket, pacer);
  t.after(() => {
    client.destroy();
    paced.destroy();
    server.close();
  });
  return { client, paced, pacer, turns };
}

test('a short packet is read at once while the event loop is free', async (t) => {
  const { client, paced, turns } = await openPair(t);
  client.write('short');
  const [bytes] = await once(paced, 'data');
  assert.equal(String(bytes), 'short');
  assert.equal(turns.length, 0);
});

test('a short packet waits for its turn while the event loop is busy', async (t) => {
  const { client, paced, pacer, turns } = await openPair(t);
  pacer.free = false;
  const read: unknown[] = [];
  paced.on('data', (bytes) => read.push(String(bytes)));
  client.write('short');
  await t.waitFor(() => assert.equal(turns.length, 1));
  assert.deepEqual(read, []);
  turns.shift()?.();
  await t.waitFor(() => assert.deepEqual(read, ['short']));
});

test('a long packet is read in slices of 4 KiB, each in its turn and in order', async (t) => {
  const { client, paced, turns } = await openPair(t);
  const read: Buffer[] = [];
  paced.on('data', (bytes) => read.push(bytes));
  const sent = Buffer.concat(Array.from({ length: 50 }, (_, i) => Buffer.alloc(1_000, i)));
  client.end(sent);
  const ended = once(paced, 'end');
  let isEnded = false;
  void ended.then(() => {
    isEnded = true;
  });
  let taken = 0;
  while (!isEnded) {
    const before = read.length;
    const next = turns.shift();
    if (next) taken += 1;
    next?.();
    await new Promise(setImmediate);
    assert.ok(read.length <= before + 1 || turns.length === 0, 'more than one slice was read in a turn');
  }
  // The network may have split off short packets.
  assert.ok(taken > read.length / 2, `${read.length} slices were read in ${taken} turns`);
  assert.ok(read.every(({ length }) => length <= 4_096));
  assert.deepEqual(Buffer.concat(read), sent);
});

test('a connection that is not read keeps one slice, and continues when it is read', async (t) => {
  const { client, paced, turns } = await openPair(t);
  client.write(kilobytes(20));
  for (let i = 0; i < 20; i += 1) {
    turns.shift()?.();
    await new Promise(setImmediate);
  }
  assert.ok(paced.readableLength <= 4_096, `${paced.readableLength} bytes are kept`);
  let length = 0;
  paced.on('data', (bytes) => {
    length += bytes.length;
  });
  await t.waitFor(() => {
    turns.shift()?.();
    assert.equal(length, 20 * 1024);
  });
});

test('both directions end, and a reset of the client closes the connection', async (t) => {
  const { client, paced } = await openPair(t);
  paced.cork();
  paced.write('one');
  paced.write('two');
  paced.uncork();
  const [bytes] = await once(client, 'data');
  assert.equal(String(bytes), 'onetwo');
  client.resetAndDestroy();
  paced.resume();
  await once(paced, 'close');
});

test('a write ends only when its client has made room for all bytes', async (t) => {
  const { client, paced } = await openPair(t);
  let isWritten = false;
  paced.write(kilobytes(20_000), () => {
    isWritten = true;
  });
  for (let i = 0; i < 20; i += 1) await new Promise(setImmediate);
  assert.equal(isWritten, false);
  client.resume();
  await t.waitFor(() => assert.ok(isWritten), { timeout: 60_000 });
});

test('bytes that wait for the client still reach it after the client has ended its direction', async (t) => {
  const { client, paced } = await openPair(t);
  const waiting = kilobytes(20_000);
  paced.write(waiting);
  client.end();
  await once(paced.resume(), 'end');
  let length = 0;
  client.on('data', (bytes) => {
    length += bytes.length;
  });
  await t.waitFor(() => assert.equal(length, waiting.length), { timeout: 60_000 });
});

test('the end of the writing direction reaches the client after all bytes', async (t) => {
  const { client, paced } = await openPair(t);
  const ended = once(client, 'end');
  const read: unknown[] = [];
  client.on('data', (bytes) => read.push(String(bytes)));
  paced.end('last');
  await ended;
  assert.deepEqual(read, ['last']);
});

test('calls that their client cancels at once start in several turns of the event loop', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  // Loads grpc-js.
  await callWire(await connectWire(t, grpc), '/Users/GetUser', framed(Uint8Array.of(8, 1)));
  const perTurn: number[] = [];
  let inTurn = 0;
  const count = () => {
    if (inTurn === 0) {
      setImmediate(() => {
        perTurn.push(inTurn);
        inTurn = 0;
      });
    }
    inTurn += 1;
  };
  subscribe('http2.server.stream.created', count);
  t.after(() => unsubscribe('http2.server.stream.created', count));
  const client = await connectFrames(t, grpc);
  const calls = Array.from({ length: 400 }, (_, i) => [
    headersFrame(2 * i + 1, '/Users/GetUser'),
    resetFrame(2 * i + 1),
  ]);
  client.write(Buffer.concat(calls.flat()));
  const all = () => perTurn.reduce((sum, n) => sum + n, 0);
  await t.waitFor(() => assert.equal(all(), 400), { timeout: 20_000 });
  assert.ok(Math.max(...perTurn) < 200, `calls by turn: ${perTurn.join(', ')}`);
});
