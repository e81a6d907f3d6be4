import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { head } from '../../test/kit/wire.ts';
import { startVictim } from './service.ts';

const clients = 200;
const writeTimeoutMs = 3_000;

/** Asks for a long file by many clients that never read, with a limit shorter than the default. */
export async function* measureStalls(): AsyncGenerator<string> {
  const victim = await startVictim(['--write-timeout-ms', String(writeTimeoutMs)]);
  const sockets: Socket[] = [];
  try {
    for (let i = 0; i < clients; i += 1) {
      const socket = connect(victim.port, '127.0.0.1', () => socket.write(head('GET /long.bin')));
      sockets.push(socket.on('error', () => undefined).pause());
    }
    const inFlight = async () => {
      const text = await (await fetch(`${victim.url}/metrics`)).text();
      return Number(/in_flight\{face="http"\} (\d+)/.exec(text)?.[1]) - 1;
    };
    const startedAt = performance.now();
    let most = 0;
    let now = clients;
    do {
      await sleep(100);
      now = await inFlight();
      most = Math.max(most, now);
    } while ((most < clients / 2 || now > 0) && performance.now() - startedAt < 20_000);
    const seconds = (performance.now() - startedAt) / 1000;
    yield `${clients} clients that never read: ${most} in flight at most`;
    yield `${now} left after ${seconds.toFixed(1)} s (limit ${writeTimeoutMs / 1000} s)`;
  } finally {
    for (const socket of sockets) socket.destroy();
    await victim.end();
  }
}
