import { once } from 'node:events';
import { connect } from 'node:net';
import { parseResponses } from '../raw.ts';
import { type FuzzInput, makeInput } from './inputs.ts';

export interface FuzzOptions {
  readonly httpPort: number;
  /** If set, every tenth input is sent to this port. */
  readonly grpcPort?: number;
  readonly seed: number;
  readonly inputs: number;
  readonly onProgress?: (done: number) => void;
}

export interface FuzzReport {
  /** The number of responses by status. Status 0 counts connections that ended without a response. */
  readonly statuses: ReadonlyMap<number, number>;
  /** The bodies of the responses that created users, by id. */
  readonly users: ReadonlyMap<number, string>;
}

const atOnce = 32;
// After this time the response is on its way, or the input is not a complete request.
const quietMs = 100;
const hangMs = 60_000;

/** Sends the inputs of a seed. Fails with the number and the bytes of an input that gets a wrong response. */
export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const statuses = new Map<number, number>();
  const users = new Map<number, string>();
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < options.inputs) {
      const number = next;
      next += 1;
      const input = makeInput(options.seed, number);
      try {
        if (options.grpcPort !== undefined && number % 10 === 0) await sendBytes(options.grpcPort, input);
        else record(await sendBytes(options.httpPort, input), statuses, users);
      } catch (error) {
        const bytes = JSON.stringify(input.bytes.toString('latin1'));
        throw new Error(`input ${number} of seed ${options.seed}: ${bytes}`, { cause: error });
      }
      options.onProgress?.(next);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return { statuses, users };
}

/** Writes the bytes and ends. Resolves to all received bytes when the other side has ended too. */
async function sendBytes(port: number, { bytes, cuts }: FuzzInput): Promise<Buffer> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  const received: Buffer[] = [];
  // A reset is valid too, if the client continues to send after a rejection.
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  let hung = false;
  const timer = setTimeout(() => {
    hung = true;
    socket.destroy();
  }, hangMs);
  await Promise.race([once(socket, 'connect').catch(() => undefined), closed]);
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    socket.write(Uint8Array.prototype.slice.call(bytes, from, to));
    from = to;
    if (cuts.length > 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.race([once(socket, 'data').catch(() => undefined), closed, pause(quietMs)]);
  socket.end();
  await closed;
  clearTimeout(timer);
  if (hung) throw new Error(`the connection was still open after ${hangMs} ms`);
  return Buffer.concat(received);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Counts the responses, and fails if one of them is not allowed for this service. */
function record(received: Buffer, statuses: Map<number, number>, users: Map<number, string>): void {
  const responses = parseResponses(received, false);
  if (received.length > 0 && responses.length === 0)
    throw new Error(`no response: ${received.toString('latin1')}`);
  if (responses.length === 0) statuses.set(0, (statuses.get(0) ?? 0) + 1);
  for (const { status, headers, body } of responses) {
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    const isOurs = (status >= 100 && status < 500) || status === 501 || status === 505;
    if (!isOurs) throw new Error(`${status} ${body}`);
    if (status >= 400) {
      const fields: unknown = JSON.parse(body);
      const isError = 'error' in Object(fields) || headers['content-type'] === 'application/problem+json';
      if (!isError || headers['cache-control'] !== 'no-store')
        throw new Error(`${status} without an error: ${body}`);
    }
    const id = /^\/users\/(\d+)$/.exec(headers['location'] ?? '')?.[1];
    if (id !== undefined && headers['idempotency-replayed'] === undefined) users.set(Number(id), body);
  }
}
