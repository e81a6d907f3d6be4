import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, Socket } from 'node:net';
import { Readable } from 'node:stream';
import { after, describe, it, type TestContext, test } from 'node:test';
import { getChannelzHandlers, status } from '@grpc/grpc-js';
import { limitStreams } from '../../src/grpc/stream-limits.ts';
import { startProcess } from '../kit/process.ts';
import { callWire, connectWire, framed, openCall } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

const patience = { timeout: 120_000 };
const path = '/Users/GetUser';
const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';

/** A service with so little memory that it holds about 250 calls and 500 connections, or with even less. */
async function startSmall(t: Parameters<typeof startProcess>[0], megabytes = 64, filledMegabytes = 0) {
  const fill = `--import=data:text/javascript,globalThis.filled=Array(${filledMegabytes}*2**17).fill(0)`;
  const env = { NODE_OPTIONS: `--max-old-space-size=${megabytes} --max-semi-space-size=1 ${fill}` };
  const { child, grpc, lines } = await startProcess(t, ['--database', 'memory:'], env);
  const isWell = async () => {
    const { code } = await callWire(await connectWire(t, grpc), path, framed(Uint8Array.of(8, 1)));
    assert.equal(code, status.NOT_FOUND);
    assert.equal(child.exitCode, null);
  };
  const reasons = () => lines.flatMap(({ event, reason }) => (event === 'refused' ? [reason] : []));
  return { grpc, isWell, reasons };
}

test('on a small heap, the oldest of many calls that never end are closed with RESOURCE_EXHAUSTED', async (t) => {
  const { grpc, isWell, reasons } = await startSmall(t);
  const calls: ReturnType<typeof openCall>[] = [];
  for (let i = 0; i < 2; i += 1) {
    const session = await connectWire(t, grpc);
    // Until the settings of the server arrive, a client sends only 100 calls.
    await once(session, 'remoteSettings');
    for (let call = 0; call < 250; call += 1) {
      calls.push(openCall(session, path).on('error', () => undefined));
    }
    // The calls of the next connection must be newer.
    await new Promise((resolve) => session.ping(resolve));
  }
  const [first] = calls;
  assert.ok(first !== undefined);
  await t.waitFor(() => assert.ok(first.closed), patience);
  assert.equal(first.rstCode, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  await isWell();
  await t.waitFor(() => assert.ok(reasons().includes('too many calls are open')), patience);
  // The client may learn of the ends of two connections in another order.
  await t.waitFor(() => {
    const open = calls.filter(({ closed }) => !closed);
    assert.ok(open.length > 100, `${open.length} calls are open`);
    assert.ok(open[0] === calls.at(-open.length), 'newer calls were closed before older ones');
  }, patience);
});

test('a server keeps no records of channelz, which would grow with its calls', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  const { code } = await callWire(await connectWire(t, grpc), path, framed(Uint8Array.of(8, 1)));
  assert.equal(code, status.NOT_FOUND);
  const given = { request: { start_server_id: 0, max_results: 0 } };
  const found: unknown[] = [];
  getChannelzHandlers().GetServers(given as never, (_error, response) => found.push(response?.server));
  assert.deepEqual(found, [[]]);
});

test('on a small heap, thousands of short messages in a packet and unread responses do not end the process', async (t) => {
  const { grpc, isWell } = await startSmall(t, 32);
  // `list_services: ""`
  const requests = Buffer.concat(Array(10_000).fill(framed(Uint8Array.of(0x3a, 0))));
  for (let i = 0; i < 6; i += 1) {
    const session = connectHttp2(`http://${grpc}`, { settings: { initialWindowSize: 0 } });
    t.after(() => session.destroy());
    session.on('error', () => undefined);
    for (let call = 0; call < 20; call += 1) {
      openCall(session, reflection)
        .on('error', () => undefined)
        .write(requests);
    }
    await new Promise((resolve) => session.ping(resolve));
    await isWell();
  }
});

/** A stream of a call, which grpc-js has paused. Each of its chunks should be a part of a packet. */
function openStream(t: TestContext) {
  const limits = limitStreams(
    () => new Socket(),
    () => undefined,
    60_000,
  );
  const stream = new Readable({ read: () => undefined });
  channel('http2.server.stream.created').publish({ stream, headers: {} });
  t.after(() => {
    channel('http2.server.stream.close').publish({ stream });
    return limits.end();
  });
  const passed: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => passed.push(chunk)).pause();
  return { stream, passed };
}

/** A copy of the bytes in the middle of a packet. */
function inPacket(bytes: Uint8Array): Buffer {
  const packet = Buffer.alloc(60_000);
  packet.set(bytes, 100);
  return packet.subarray(100, 100 + bytes.length);
}

const buffersOf = (chunks: readonly Buffer[]) => new Set(chunks.map(({ buffer }) => buffer));

test('a message is passed on when it is complete, without keeping the packets of its parts', async (t) => {
  const { stream, passed } = openStream(t);
  stream.resume();
  const message = framed(new Uint8Array(5_000).fill(1));
  const parts = [0, 1, 3, 5, 900, 4_999, 5_005].map((end, i, ends) =>
    message.subarray(ends[i - 1] ?? 0, end),
  );
  const packets = parts.map(inPacket);
  const wants = packets.map((part) => stream.push(part));
  await t.waitFor(() => assert.ok(Buffer.concat(passed).equals(message)), patience);
  assert.deepEqual(wants, Array(parts.length).fill(true));
  // grpc-js would keep many slices of a message with more memory than the message itself.
  assert.equal(passed.length, 1);
  assert.equal(buffersOf([...packets, ...passed]).size, packets.length + 1);
});

test('while messages of a call wait, the others share one buffer, and its client may only fill its window', async (t) => {
  const { stream, passed } = openStream(t);
  const messages = Array.from({ length: 1_000 }, (_, i) => framed(Uint8Array.of(i % 256)));
  const wants = messages.map((message) => stream.push(inPacket(message)));
  assert.deepEqual(
    wants,
    messages.map((_, i) => i === 0),
  );
  assert.deepEqual(passed, []);
  stream.resume();
  const all = Buffer.concat(messages);
  await t.waitFor(() => assert.ok(Buffer.concat(passed).equals(all)), patience);
  assert.equal(buffersOf(passed).size, 2);
  assert.deepEqual(
    [...new Set(passed.map(({ length }) => length))],
    // The first, which did not wait, then slices of eleven messages, and the rest.
    [6, 66, 999 * 6 - 90 * 66],
  );
});

test('a message that is longer than the maximum is passed on, so that grpc-js rejects it', async (t) => {
  const { stream, passed } = openStream(t);
  stream.resume();
  const beginning = framed(new Uint8Array(2), 0, 60_001);
  stream.push(inPacket(beginning));
  await t.waitFor(() => assert.ok(Buffer.concat(passed).equals(beginning)), patience);
});

test('an unfinished message is passed on at the end of its stream, so that grpc-js reports it', async (t) => {
  const { stream, passed } = openStream(t);
  const ended = once(stream.resume(), 'end');
  const beginning = framed(new Uint8Array(2), 0, 3);
  stream.push(inPacket(beginning));
  stream.push(null);
  await ended;
  assert.deepEqual(Buffer.concat(passed), beginning);
});

test('a call keeps only the metadata that the service or its host reads, so that grpc-js does not parse the rest', async () => {
  const limits = limitStreams(
    () => new Socket(),
    () => undefined,
    60_000,
  );
  const stream = {};
  const read = {
    ':path': path,
    'content-type': 'application/grpc',
    'grpc-timeout': '1S',
    'grpc-encoding': 'gzip',
    'x-api-key': 'key',
    'x-request-id': 'a-1',
    traceparent: '00-1-2-01',
    tracestate: 'a=1',
    baggage: 'b=2',
  };
  const headers = { ...read, 'a-bin': ','.repeat(128), b: 'c', 'x-request-idx': 'a-2' };
  channel('http2.server.stream.created').publish({ stream, headers });
  channel('http2.server.stream.close').publish({ stream });
  await limits.end();
  assert.deepEqual(headers, read);
});

test('on a small heap, more connections than fit are closed', async (t) => {
  const { grpc, reasons } = await startSmall(t, 32);
  const port = Number(grpc.split(':')[1]);
  for (let i = 0; i < 400; i += 1) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.after(() => socket.destroy());
  }
  await t.waitFor(() => assert.ok(reasons().includes('too many connections are open')), patience);
});

test('on a small heap, watches of long names of unknown services are forgotten when they end', async (t) => {
  const { grpc, isWell } = await startSmall(t, 32, 12);
  const session = await connectWire(t, grpc);
  for (let i = 0; i < 250; i += 1) {
    const name = Buffer.alloc(60_000, `${i} `);
    // The field `service`, whose length takes three bytes.
    const request = Buffer.concat([Uint8Array.of(0x0a, 0xe0, 0xd4, 0x03), name]);
    const call = openCall(session, '/grpc.health.v1.Health/Watch').on('error', () => undefined);
    call.end(framed(request));
    const ended = new Promise((resolve) => call.on('close', resolve));
    await Promise.race([once(call, 'data'), ended]);
    call.close(constants.NGHTTP2_CANCEL);
  }
  await isWell();
});

describe('the limits of a call', async () => {
  const { grpc, isWell, reasons } = await startSmall({ after });

  it('on a small heap, calls that never end have no effect on later ones once their connection is closed', async (t) => {
    const earlier = reasons().length;
    for (let i = 0; i < 4; i += 1) {
      const session = await connectWire(t, grpc);
      const calls = Array.from({ length: 200 }, () => openCall(session, path));
      for (const call of calls) call.on('error', () => undefined);
      await new Promise((resolve) => session.ping(resolve));
      session.destroy();
      await isWell();
    }
    assert.deepEqual(reasons().slice(earlier), []);
  });

  it('on a small heap, open calls with long lists of binary metadata do not end the process', async (t) => {
    const earlier = reasons().length;
    const session = await connectWire(t, grpc);
    await once(session, 'remoteSettings');
    const metadata = Object.fromEntries(
      Array.from({ length: 14 }, (_, i) => [`x-${i}-bin`, ','.repeat(4_000)]),
    );
    // The values of each would need about 10 MB.
    const calls = Array.from({ length: 100 }, () =>
      openCall(session, path, metadata).on('error', () => undefined),
    );
    // The server handles the calls of a connection in order.
    const { code } = await callWire(session, path, framed(Uint8Array.of(8, 1)), metadata);
    assert.equal(code, status.NOT_FOUND);
    await isWell();
    assert.ok(calls.every(({ closed }) => !closed));
    assert.deepEqual(reasons().slice(earlier), []);
  });

  it('a call may send its message in any number of short frames', async (t) => {
    const session = await connectWire(t, grpc);
    const call = openCall(session, path);
    const ended = once(call, 'response');
    // An unknown field makes the message longer, and is valid. Each write becomes a frame.
    for (const byte of framed(Uint8Array.of(8, 1, 0x7a, 0xcc, 0x08, ...Array<number>(1_100).fill(0x61))))
      call.write(Uint8Array.of(byte));
    call.resume().end();
    const [head] = await ended;
    assert.equal(head['grpc-status'], String(status.NOT_FOUND));
  });
});
