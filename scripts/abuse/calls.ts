import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../../test/kit/free-ports.ts';
import { framed, openCall } from '../../test/support/grpc-wire.ts';
import { pinSelf } from '../bench/cores.ts';
import { measureAttack, startVictim } from './service.ts';

interface Flood {
  readonly what: string;
  readonly connections: number;
  /** How many calls each connection opens. */
  readonly calls: number;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What each call sends before it waits for ever. */
  readonly bytes?: Buffer;
  /** Whether the client resets each call at once. */
  readonly resets?: boolean;
}

const watch = '/grpc.health.v1.Health/Watch';
const reflect = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
const listServices = framed(Uint8Array.of(0x3a, 0));
const metadata = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`x-${i}`, 'v'.repeat(1_000)]));
const floods: readonly Flood[] = [
  { what: '25,000 calls', connections: 250, calls: 100 },
  {
    what: '25,000 messages of 60 KB that stop before their end',
    connections: 250,
    calls: 100,
    bytes: framed(new Uint8Array(60_000), 0, 60_001),
  },
  { what: '25,000 calls with 10 KB of metadata', connections: 250, calls: 100, headers: metadata },
  {
    what: '25,000 calls of unknown methods with paths of 5 KB',
    connections: 250,
    calls: 100,
    path: `/${'x'.repeat(5_000)}`,
  },
  {
    what: '25,000 watches of the health',
    connections: 250,
    calls: 100,
    path: watch,
    bytes: framed(new Uint8Array()),
  },
  {
    what: '4,000 times 10,000 requests of reflection, without reading',
    connections: 20,
    calls: 200,
    path: reflect,
    bytes: Buffer.concat(Array(10_000).fill(listServices)),
  },
  { what: '25,000 calls that are reset', connections: 250, calls: 100, resets: true },
  { what: '3,000 idle connections', connections: 3_000, calls: 0 },
];

/** Opens calls that never end, on a small heap; reports memory and probes of the HTTP API meanwhile. */
export async function* measureCalls(only: RegExp): AsyncGenerator<string> {
  pinSelf('load');
  for (const flood of floods.filter(({ what }) => only.test(what))) {
    const [grpcPort = 0] = await freePorts(1);
    const victim = await startVictim(true, grpcPort);
    // grpc-js is loaded a second after the start.
    const prepare = () => sleep(2_000);
    const attack = (sessions: ClientHttp2Session[]) => start(grpcPort, flood, sessions);
    yield* measureAttack(victim, flood.what, prepare, attack);
  }
}

async function start(port: number, flood: Flood, sessions: ClientHttp2Session[]): Promise<void> {
  const { connections, calls, path = '/Users/GetUser', headers, bytes, resets } = flood;
  for (let i = 0; i < connections; i += 1) {
    const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 0 } });
    session.on('error', () => undefined);
    sessions.push(session);
    for (let call = 0; call < calls; call += 1) {
      const stream = openCall(session, path, headers);
      stream.on('error', () => undefined);
      if (bytes !== undefined) stream.write(bytes);
      if (resets === true) stream.close(constants.NGHTTP2_CANCEL);
    }
    if (i % 10 === 9) await sleep(1);
  }
}
