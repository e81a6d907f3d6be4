import { spawn } from 'node:child_process';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { credentials } from '@grpc/grpc-js';
import { UsersClient } from '../generated/users_grpc_pb.js';
import { GetUserRequest } from '../src/grpc/users.ts';

export interface Tally {
  readonly client: string;
  requests: number;
  /** The number of failures by message. */
  readonly failures: Map<string, number>;
  /** An optional note of a client. */
  note: string;
}

export interface Target {
  readonly http: string;
  readonly grpc: string;
  readonly signal: AbortSignal;
}

/** Sends requests without a pause until the signal, and resolves to the result. */
export type Client = (target: Target) => Promise<Tally>;

/** The duration of one run of an external program, in seconds. */
const runSeconds = 3;
const protoFile = fileURLToPath(new URL('../proto/users.proto', import.meta.url));

function newTally(client: string): Tally {
  return { client, requests: 0, failures: new Map(), note: '' };
}

function fail(tally: Tally, what: string, count = 1): void {
  if (count > 0) tally.failures.set(what, (tally.failures.get(what) ?? 0) + count);
}

function overHttp(http: string, agent: Agent): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const sent = request(`${http}/users/1`, { agent, timeout: 10_000 }, (response) => {
    response.on('error', (error) => resolve(error.message));
    response.on('end', () =>
      resolve(response.statusCode === 200 ? undefined : `status ${response.statusCode}`),
    );
    response.resume();
  });
  sent.on('error', (error) => resolve(error.message));
  sent.on('timeout', () => sent.destroy(new Error('no answer in 10 s')));
  sent.end();
  return promise;
}

/** The client of Node.js with kept connections, and a pause of `pauseMs` between the requests of each. */
export function nodeAgent(
  name: string,
  options: { connections: number; pauseMs: number; keepAlive: boolean },
): Client {
  return async ({ http, signal }) => {
    const { connections, pauseMs, keepAlive } = options;
    const tally = newTally(name);
    const agent = new Agent({ keepAlive, maxSockets: connections });
    const loop = async (): Promise<void> => {
      while (!signal.aborted) {
        const failure = await overHttp(http, agent);
        tally.requests += 1;
        if (failure !== undefined) fail(tally, failure);
        if (pauseMs > 0) await sleep(pauseMs);
      }
    };
    await Promise.all(Array.from({ length: connections }, loop));
    agent.destroy();
    return tally;
  };
}

/** grpc-js, which automatically retries calls that a closing server has not started. */
export const grpcJs: Client = async ({ grpc, signal }) => {
  const tally = newTally('grpc-js, 4 channels of 8 calls');
  const message = new GetUserRequest();
  message.setId(1);
  const loop = async (client: UsersClient): Promise<void> => {
    while (!signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<string | undefined>();
      client.getUser(message, { deadline: Date.now() + 10_000 }, (error) => resolve(error?.message));
      const failure = await promise;
      tally.requests += 1;
      if (failure !== undefined) fail(tally, failure);
    }
  };
  const channel = async (): Promise<void> => {
    const client = new UsersClient(grpc, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    await Promise.all(Array.from({ length: 8 }, () => loop(client)));
    client.close();
  };
  await Promise.all(Array.from({ length: 4 }, channel));
  return tally;
};

/** An external program that is run repeatedly. `read` finds the figures in its output. */
function program(
  name: string,
  args: (target: Target) => string[],
  read: (text: string, tally: Tally) => void,
): Client {
  return async (target) => {
    const tally = newTally(name);
    while (!target.signal.aborted) {
      const text = await run(name.split(',')[0] ?? name, args(target));
      if (text === undefined) {
        fail(tally, 'not installed');
        return tally;
      }
      read(text, tally);
    }
    if (tally.requests === 0) fail(tally, 'no requests');
    return tally;
  };
}

/** Resolves to the output of a program, or `undefined` if it is not installed. */
async function run(command: string, args: readonly string[]): Promise<string | undefined> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const { promise, resolve } = Promise.withResolvers<boolean>();
  child.once('error', () => resolve(false));
  child.once('spawn', () => resolve(true));
  if (!(await promise)) return undefined;
  return Buffer.concat(await child.stdout.toArray()).toString();
}

function numberIn(text: string, pattern: RegExp): number {
  return Number(pattern.exec(text)?.[1] ?? 0);
}

export const wrk = program(
  'wrk, 8 kept connections',
  ({ http }) => ['-t1', '-c8', `-d${runSeconds}s`, '--timeout', '10s', `${http}/users/1`],
  (text, tally) => {
    tally.requests += numberIn(text, /(\d+) requests in/);
    for (const kind of ['connect', 'read', 'write', 'timeout']) {
      fail(tally, `${kind} error`, numberIn(text, new RegExp(`Socket errors:.*${kind} (\\d+)`)));
    }
    fail(tally, 'status', numberIn(text, /Non-2xx or 3xx responses: (\d+)/));
  },
);

export const h2load = program(
  'h2load, 4 kept connections of HTTP/1.1',
  // By number and not by time: before 1.64, a connection that h2load opens again at the end of its time never
  // ends (nghttp2 issue 2250).
  ({ http }) => ['--h1', '-t1', '-c4', '-n2000', `${http}/users/1`],
  (text, tally) => {
    tally.requests += numberIn(text, /requests: (\d+) total/);
    fail(tally, 'failed', numberIn(text, /(\d+) failed/));
    fail(tally, 'status', numberIn(text, /(\d+) 4xx/) + numberIn(text, /(\d+) 5xx/));
  },
);

export const ghz = program(
  'ghz, 2 channels',
  ({ grpc }) => [
    ...['--insecure', '--proto', protoFile, '--call', 'Users.GetUser', '-d', '{"id":1}', '-O', 'json'],
    ...['-c', '4', '--connections', '2', '-z', `${runSeconds}s`, '--duration-stop', 'wait', grpc],
  ],
  (text, tally) => {
    const { statusCodeDistribution, errorDistribution } = JSON.parse(text);
    for (const count of Object.values(statusCodeDistribution ?? {})) tally.requests += Number(count);
    for (const [what, count] of Object.entries(errorDistribution ?? {})) {
      // ghz counts attempts. This attempt had not started when the connection was closed, and grpc-go has
      // retried it transparently.
      if (/the connection is draining/.test(what))
        tally.note = 'attempts that grpc-go retries are not failures';
      else fail(tally, what, Number(count));
    }
  },
);
