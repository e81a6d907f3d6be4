import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { setImmediate } from 'node:timers/promises';

/** The options that can prevent a service from starting. */
export type StartOption = 'database' | 'readDatabase' | 'publicDir' | 'tls' | 'host' | 'port' | 'grpcPort';

/** A service could not start because of one of its options. */
export class StartError extends Error {
  override readonly name = 'StartError';
  readonly option: StartOption;

  constructor(option: StartOption, message: string, cause: unknown) {
    super(message, { cause });
    this.option = option;
  }
}

/** Runs a step of the start. Its failure becomes a `StartError` that names the option. */
export async function step<T>(option: StartOption, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (caught) {
    const message = Error.isError(caught) ? caught.message : String(caught);
    // The store reads the URL of its standbys too.
    throw new StartError(message.startsWith('readDatabase ') ? 'readDatabase' : option, message, caught);
  }
}

// The length of the kernel's queue of new connections. If it is full, a client waits at least a second to try again. On
// the gRPC port, it fills while grpc-js is loaded.
const backlog = 65_535;
// At most this many connections are accepted before a port closes, so that a flood of them cannot prevent the stop.
const maxLastAccepts = 1_000;

/** Opens the port of a server, and returns its IP address and number. Makes system errors readable. */
export async function openPort(
  option: 'port' | 'grpcPort',
  host: string,
  port: number,
  server: Server,
): Promise<Pick<AddressInfo, 'address' | 'port'>> {
  try {
    server.listen({ host, port, backlog });
    await once(server, 'listening');
    const bound = server.address();
    return typeof bound === 'object' && bound !== null ? bound : { address: host, port };
  } catch (caught) {
    const { code } = Object(caught);
    const address = authority(host, port);
    if (code === 'EADDRINUSE') throw new StartError(option, `${address} is in use`, caught);
    if (code === 'EACCES')
      throw new StartError(option, `${address} needs more privileges, or the system reserves it`, caught);
    if (code === 'EADDRNOTAVAIL' || code === 'EINVAL')
      throw new StartError('host', `${host} is not an address of this machine`, caught);
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
      throw new StartError('host', `the host name ${host} is not known`, caught);
    throw new StartError(option, `cannot listen on ${address}: ${code ?? caught}`, caught);
  }
}

/** Opens and closes a port. Fails like the start of a service. */
export async function tryPort(option: 'port' | 'grpcPort', host: string, port: number): Promise<void> {
  await using server = createServer();
  await openPort(option, host, port, server);
}

/**
 * Resolves when no connection waits in the queue of the kernel, which resets the waiting ones when the port closes. Node
 * accepts only one in each turn of the event loop, so a busy process has several. `turn` resolves after such a turn, to
 * `false` if other processes accept the connections that wait.
 */
export async function acceptWaiting(
  server: Server,
  signal: AbortSignal,
  turn: () => Promise<unknown> = setImmediate,
): Promise<void> {
  let accepted = 0;
  const onConnection = (): void => {
    accepted += 1;
  };
  server.on('connection', onConnection);
  // The first turn has perhaps accepted its connection already.
  let before = (await turn()) === false ? accepted : -1;
  while (accepted > before && accepted < maxLastAccepts && !signal.aborted) {
    before = accepted;
    await turn();
  }
  server.off('connection', onConnection);
}

/** `host:port`, as in a URL. */
export function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
