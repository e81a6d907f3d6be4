import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fail } from '../harness/fail.ts';
import { startVictim } from './service.ts';

const clients = 100;
const minutes = 10;
// How long balancers keep an idle connection; the service must never close it first.
const idleMs = 60_000;

/** Sparse traffic over connections that idle like a balancer's: a reset here is a 502 there. */
export async function* measureIdle(): AsyncGenerator<string> {
  const victim = await startVictim();
  const endsAt = performance.now() + minutes * 60_000;
  let requests = 0;
  let connections = 0;
  let resets = 0;
  const client = async (): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (performance.now() < endsAt) {
      const isNew = await new Promise<boolean>((resolve, reject) => {
        const request = get(`${victim.url}/health`, { agent }, (response) => {
          response.resume().on('end', () => resolve(!request.reusedSocket));
        });
        request.on('error', reject);
      }).catch(() => {
        resets += 1;
        return true;
      });
      requests += 1;
      if (isNew) connections += 1;
      // Mostly close to the limit, where a race would show.
      await sleep(Math.min(idleMs * (0.5 + Math.random() / 2), Math.max(endsAt - performance.now(), 0)));
    }
    agent.destroy();
  };
  try {
    await Promise.all(Array.from({ length: clients }, client));
    yield `${requests} requests in ${minutes} minutes over ${connections} connections, ${resets} resets`;
    if (resets > 0) fail(`${resets} idle connections were reset`);
  } finally {
    await victim.end();
  }
}
