import { readdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createService } from '../../src/service.ts';
import { abortKinds, abortRequest } from '../../test/kit/aborts.ts';

const requests = 10_000;
const atOnce = abortKinds;

/** Breaks off requests in every way, and reports what they leave behind. */
export async function* measureAborts(): AsyncGenerator<string> {
  const publicDir = await mkdtemp(join(tmpdir(), 'abuse-'));
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(30_000_000));
  let failures = 0;
  const observe = (event: { readonly type: string }) => {
    if (event.type === 'failure') failures += 1;
  };
  const service = createService({ database: 'memory:', port: 0, grpcPort: false, publicDir, observe });
  try {
    const { http } = await service.listen();
    const port = Number(new URL(http).port);
    await abort(port, requests / 5);
    const before = await taken();
    const startedAt = performance.now();
    await abort(port, requests);
    const seconds = (performance.now() - startedAt) / 1000;
    const after = await taken();
    yield `${requests} requests broken off in ${seconds.toFixed(1)} s`;
    yield `descriptors ${before.descriptors} before, ${after.descriptors} after`;
    yield `heap ${mib(before.heap)} before, ${mib(after.heap)} after`;
    const metrics = await (await fetch(`${http}/metrics`)).text();
    yield `in flight ${/in_flight\{face="http"\} (\d+)/.exec(metrics)?.[1]}, the one that asks among them`;
    yield `users stored ${(await (await fetch(`${http}/users`)).text()) === '[]' ? 0 : 'SOME'}`;
    yield `failures of the service's own ${failures}`;
  } finally {
    await service.close({ timeoutMs: 2_000 });
    await rm(publicDir, { recursive: true });
  }
}

async function abort(port: number, count: number): Promise<void> {
  for (let done = 0; done < count; done += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, kind) => abortRequest(port, kind)));
  }
}

/** What this process still holds after garbage collection. */
async function taken(): Promise<{ readonly descriptors: number; readonly heap: number }> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  for (let i = 0; i < 10; i += 1) {
    await sleep(200);
    collect();
  }
  return { descriptors: readdirSync('/proc/self/fd').length, heap: process.memoryUsage().heapUsed };
}

function mib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(2)} MiB`;
}
