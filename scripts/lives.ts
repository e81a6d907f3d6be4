// Starts and closes a service many times in one process, and prints the remaining handles and memory.
//   npm run try:lives -- [--rounds 1000]
import { once } from 'node:events';
import { get } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { createService } from '../src/service.ts';
import { readArguments } from './harness/arguments.ts';

const { rounds } = readArguments({ rounds: 1_000 });

async function live(): Promise<void> {
  const service = createService({ database: 'memory:', port: 0, grpcPort: 0 });
  const { http } = await service.listen();
  // Do not use fetch, because it keeps data about every origin.
  const [response] = await once(get(`${http}/health`, { agent: false }), 'response');
  await response.resume().toArray();
  await service.close();
}

async function report(after: string): Promise<void> {
  for (let turns = 0; turns < 3; turns += 1) await turn();
  globalThis.gc?.();
  const { heapUsed, rss } = process.memoryUsage();
  const handles = process.getActiveResourcesInfo().length;
  const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const mib = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
  console.log(
    `${after.padEnd(14)} handles ${handles}  listeners ${listeners}  heap ${mib(heapUsed)}  rss ${mib(rss)}`,
  );
}

for (let round = 0; round < 50; round += 1) await live();
await report('after 50');
for (let round = 50; round < rounds; round += 1) await live();
await report(`after ${rounds}`);
