import { once } from 'node:events';
import { connect } from 'node:net';
import { head } from '../../test/kit/wire.ts';
import { startVictim } from './service.ts';

interface Drip {
  readonly what: string;
  readonly opening: string;
  readonly drip: string;
  /** The limit in force, and how late it may be noticed, in seconds. */
  readonly limit: string;
}

const json = 'Content-Type: application/json';
const drips: readonly Drip[] = [
  { what: 'nothing at all', opening: '', drip: '', limit: '10 + 5 s' },
  {
    what: 'a head, a byte a second',
    opening: 'GET /health HTTP/1.1\r\nHost: localhost\r\na: ',
    drip: 'b',
    limit: '10 + 5 s',
  },
  {
    what: 'a body, a byte a second',
    opening: head('POST /users', json, 'Content-Length: 1000'),
    drip: ' ',
    limit: '30 + 5 s',
  },
  {
    what: 'chunks, one a second',
    opening: head('POST /users', json, 'Transfer-Encoding: chunked'),
    drip: '1\r\n \r\n',
    limit: '30 + 5 s',
  },
];

/** Sends as slowly as possible, against the default limits. */
export async function* measureTimeouts(): AsyncGenerator<string> {
  const victim = await startVictim();
  try {
    for (const line of await Promise.all(drips.map((one) => dripTo(victim.port, one)))) yield line;
  } finally {
    await victim.end();
  }
}

async function dripTo(port: number, { what, opening, drip, limit }: Drip): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  const startedAt = performance.now();
  socket.write(opening);
  const timer = setInterval(() => socket.writable && socket.write(drip), 1_000);
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.once('data', (data) => resolve(data.toString())).once('close', () => resolve(''));
  const response = await promise;
  const seconds = (performance.now() - startedAt) / 1000;
  clearInterval(timer);
  socket.destroy();
  const [status] = /\d{3}/.exec(response) ?? ['nothing'];
  return `${what}: ${status} after ${seconds.toFixed(1)} s (limit ${limit})`;
}
