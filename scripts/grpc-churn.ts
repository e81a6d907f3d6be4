/**
 * Opens many short gRPC connections, each with one call before it is cut off, and prints what the service
 * still keeps: heap, sockets and running calls.
 *
 *   npm run try:grpc-churn -- [--connections 20000]
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { createService } from '../src/service.ts';
import { readArguments } from './harness/arguments.ts';

const { connections } = readArguments({ connections: 20_000 });
const atOnce = 20;

// All bytes that a client sends: preface, SETTINGS, and one call of /Users/GetUser with id 1. The headers are
// fixed bytes (HPACK, literals without an index), so that the client needs almost no time.
const header = (name: string, value: string): Buffer =>
  Buffer.concat([
    Buffer.from([0, name.length]),
    Buffer.from(name),
    Buffer.from([value.length]),
    Buffer.from(value),
  ]);
const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const head = Buffer.concat([
  header(':method', 'POST'),
  header(':scheme', 'http'),
  header(':path', '/Users/GetUser'),
  header(':authority', 'localhost'),
  header('content-type', 'application/grpc'),
  header('te', 'trailers'),
]);
const call = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame(4, 0, 0, Buffer.alloc(0)),
  frame(1, 4, 1, head),
  frame(0, 1, 1, Buffer.from([0, 0, 0, 0, 2, 8, 1])),
]);

let calls = 0;
const service = createService({
  database: 'memory:',
  port: 0,
  grpcPort: 0,
  observe: (event) => {
    if (event.type === 'request' && event.face === 'grpc') calls += 1;
  },
});
const { http, grpc = '' } = await service.listen();
await fetch(`${http}/users`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ name: 'Ada' }),
});
const port = Number(grpc.split(':')[1]);

await churn(1_000);
const before = await heapBytes();
const startedAt = performance.now();
await churn(connections);
const seconds = (performance.now() - startedAt) / 1000;
const after = await heapBytes();
const metrics = await (await fetch(`${http}/metrics`)).text();

console.log(`${connections} connections in ${seconds.toFixed(1)} s, ${calls} calls completed`);
console.log(`heap before ${mib(before)}, after ${mib(after)}, grown by ${mib(after - before)}`);
console.log(
  `open handles ${process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length}`,
);
console.log(/.*in_flight\{face="grpc"\}.*/.exec(metrics)?.[0]);
const closingAt = performance.now();
await service.close({ timeoutMs: 5_000 });
console.log(`closed in ${(performance.now() - closingAt).toFixed()} ms`);

async function churn(count: number): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left > 0) {
        left -= 1;
        const socket = connect(port, '127.0.0.1', () => socket.write(call));
        socket.on('error', () => undefined);
        let received = Buffer.alloc(0);
        socket.on('data', (bytes: Buffer) => {
          received = Buffer.concat([received, bytes]);
          if (hasTrailers(received)) socket.resetAndDestroy();
        });
        socket.setTimeout(1_000, () => socket.destroy());
        await once(socket, 'close');
      }
    }),
  );
}

/** Whether HEADERS that end their stream are among the frames. */
function hasTrailers(bytes: Buffer): boolean {
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === 1 && ((bytes[at + 4] ?? 0) & 1) === 1) return true;
  }
  return false;
}

async function heapBytes(): Promise<number> {
  if (globalThis.gc === undefined) throw new Error('run with node --expose-gc');
  for (let i = 0; i < 5; i += 1) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return process.memoryUsage().heapUsed;
}

function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(2)} MiB`;
}
