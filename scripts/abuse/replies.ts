import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { head, post } from '../../test/kit/wire.ts';
import { pinSelf } from '../bench/cores.ts';
import { post as send } from '../harness/post.ts';
import { attackSeconds, measureAttack, startVictim, type Victim } from './service.ts';

const slowBytes = 1_000;

interface Attack {
  readonly what: string;
  readonly connections: number;
  /** What each connection sends. */
  readonly bytes: string;
  /** Whether each takes about 1 KB a second; none otherwise. */
  readonly reads?: boolean;
}

const stream = head('GET /users/1/posts');
const list = head('GET /users/1/posts?limit=100');
const json = 'Content-Type: application/json';
const long = 'x'.repeat(1_000_000);
const newPost = post('/users/1/posts', JSON.stringify({ title: 'a', body: long.slice(0, 10_000) }));
const attacks: readonly Attack[] = [
  { what: '1,000 pipelined streams on one connection', connections: 1, bytes: stream.repeat(1_000) },
  { what: '2,000 streams', connections: 2_000, bytes: stream },
  { what: '2,000 streams, read slowly', connections: 2_000, bytes: stream, reads: true },
  { what: '2,000 lists of 100', connections: 2_000, bytes: list },
  { what: '2,000 lists of 100, read slowly', connections: 2_000, bytes: list, reads: true },
  { what: '2,000 files of 10 MB', connections: 2_000, bytes: head('GET /long.bin') },
  {
    what: '2,000 times 1,500 pipelined requests',
    connections: 2_000,
    bytes: head('GET /users').repeat(1_500),
  },
  {
    what: '2,000 times 4 pipelined requests with 15 KB of headers',
    connections: 2_000,
    bytes: head('GET /users', `X-Long: ${long.slice(0, 15_000)}`).repeat(4),
  },
  {
    what: '2,000 bodies in 10,000 chunks of one byte',
    connections: 2_000,
    bytes: head('POST /users', json, 'Transfer-Encoding: chunked') + '1\r\na\r\n'.repeat(10_000),
  },
  {
    what: '2,000 heads with 3,000 lines that stop before their end',
    connections: 2_000,
    bytes: `GET /users HTTP/1.1\r\nHost: localhost\r\n${'a:\r\n'.repeat(3_000)}`,
  },
  { what: '500 echoes of 1 MB', connections: 500, bytes: post('/echo', `"${long}"`) },
  {
    what: '2,000 bodies of 100 KB that stop before their end',
    connections: 2_000,
    bytes: head('POST /users', json, 'Content-Length: 100001') + long.slice(0, 100_000),
  },
  { what: '2,000 posts of 10,000 characters', connections: 2_000, bytes: newPost },
  { what: '2,000 times 5 pipelined posts', connections: 2_000, bytes: newPost.repeat(5) },
  {
    what: '1,200 followers of 1 MB of changes',
    connections: 1_200,
    bytes: head('GET /changes', 'Accept: text/event-stream'),
  },
  { what: '12,000 idle connections', connections: 12_000, bytes: head('GET /health') },
];

/** Asks for long replies and takes little of them, on a small heap; reports memory and probes meanwhile. */
export async function* measureReplies(only: RegExp): AsyncGenerator<string> {
  // The attack comes from this process, which leaves the service its core.
  pinSelf('load');
  for (const attack of attacks.filter(({ what }) => only.test(what))) {
    const victim = await startVictim(true);
    const prepare = () => fill(victim);
    yield* measureAttack<Socket>(victim, attack.what, prepare, (sockets) => start(victim, attack, sockets));
  }
}

/** 100 posts of 10,000 characters. */
async function fill({ url }: Victim): Promise<void> {
  const body = long.slice(0, 10_000);
  for (let i = 0; i < 100; i += 1) await send(`${url}/users/1/posts`, { title: 'long', body });
}

async function start(
  { port }: Victim,
  { connections, bytes, reads }: Attack,
  sockets: Socket[],
): Promise<void> {
  const packet = Buffer.from(bytes);
  for (let i = 0; i < connections; i += 1) {
    const socket = new Socket({ readableHighWaterMark: slowBytes } as object);
    socket.on('error', () => undefined);
    socket.connect(port, '127.0.0.1', () => socket.write(packet));
    sockets.push(socket.pause());
    if (i % 100 === 99) await sleep(1);
  }
  const end = performance.now() + attackSeconds * 1_000;
  while (performance.now() < end) {
    if (reads === true) for (const socket of sockets) socket.read(slowBytes);
    await sleep(1_000);
  }
}
