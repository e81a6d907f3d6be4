// Starts, uses and closes a service many times in one process. Prints the remaining handles and memory, and fails if
// there are more than after the first lives:
//
//   npm run try:lives -- [--rounds 1000]
import { once } from 'node:events';
import { get } from 'node:http';
import { connect } from 'node:http2';
import { setImmediate as turn } from 'node:timers/promises';
import { createService } from '../src/service/service.ts';
import { callWire, framed } from '../test/support/grpc-wire.ts';
import { endWith, readArguments } from './harness/arguments.ts';
import { fail } from './harness/fail.ts';

const { rounds } = readArguments({ rounds: 1_000 });
const firstRounds = 50;
if (rounds <= firstRounds) endWith(`--rounds must be more than ${firstRounds}`);
// Compiled code and the data of its types grow for some hundred lives. What remains of a service is larger.
const [freeBytes, freeBytesPerLife] = [2 * 2 ** 20, 4 * 2 ** 10];
const getUserRequest = framed(Uint8Array.of(8, 1));

async function live(): Promise<void> {
  const service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
  const { http, grpc } = await service.listen();
  // Do not use fetch, because it keeps data about every origin.
  const [response] = await once(get(`${http}/health`, { agent: false }), 'response');
  await response.resume().toArray();
  // The service loads grpc-js for its first connection.
  const session = connect(`http://${grpc}`);
  const { code } = await callWire(session, '/Users/GetUser', getUserRequest);
  if (code !== 5) throw new Error(`GetUser returned ${code} instead of NOT_FOUND`);
  session.close();
  await service.close();
}

interface Remains {
  readonly handles: number;
  readonly listeners: number;
  readonly heapUsed: number;
}

async function remains(after: number): Promise<Remains> {
  for (let turns = 0; turns < 3; turns += 1) await turn();
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  const handles = process.getActiveResourcesInfo().length;
  const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const mib = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
  console.log(
    `after ${String(after).padEnd(8)} handles ${handles}  listeners ${listeners}  heap ${mib(heapUsed)}  rss ${mib(rss)}`,
  );
  return { handles, listeners, heapUsed };
}

for (let round = 0; round < firstRounds; round += 1) await live();
const first = await remains(firstRounds);
for (let round = firstRounds; round < rounds; round += 1) await live();
const last = await remains(rounds);
if (last.handles > first.handles) fail('handles remained');
if (last.listeners > first.listeners) fail('listeners of the process remained');
const grown = last.heapUsed - first.heapUsed;
if (grown > freeBytes + freeBytesPerLife * (rounds - firstRounds)) fail('the heap grew');
