import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { checkErrors, parseResponse, parseResponses, type RawResponse } from './raw.ts';

// Shorter than the time limit of a test, so that the failure shows what has arrived instead of a response.
const patienceMs = 300_000;

/** A connection on which a test writes bytes and reads complete responses, one after another. */
export class Wire {
  readonly socket: Socket;
  /** Whether the connection was reset instead of ended. */
  wasReset = false;
  /** The received bytes, and space for more: joining all bytes for each chunk of a long response takes long. */
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;
  /** The length of the responses that `next` has returned. */
  #taken = 0;
  #head = false;
  #ended = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (chunk: Buffer) => this.#append(chunk));
    socket.on('end', () => {
      this.#ended = true;
    });
    socket.on('error', () => {
      this.wasReset = true;
    });
  }

  static async open(t: Pick<TestContext, 'after'>, port: number): Promise<Wire> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const wire = new Wire(socket);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    return wire;
  }

  /** All received bytes so far. */
  get received(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  write(...parts: readonly (string | Uint8Array)[]): this {
    for (const part of parts)
      this.socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part);
    return this;
  }

  /** Discards the received bytes of a connection with many responses, after all of them were read. */
  forget(): void {
    this.#bytes = Buffer.alloc(0);
    this.#length = 0;
    this.#taken = 0;
  }

  /** Treats all later responses as those to HEAD, which have no body. */
  expectHead(): this {
    this.#head = true;
    return this;
  }

  /** The next response, which can be an interim one. */
  async next(): Promise<RawResponse> {
    const deadline = AbortSignal.timeout(patienceMs);
    for (;;) {
      const found = parseResponse(this.received.subarray(this.#taken), this.#head);
      if (found !== undefined) {
        this.#taken += found.length;
        if (!this.#head) checkErrors([found.response]);
        return found.response;
      }
      if (this.#ended || this.socket.destroyed) throw new Error(`ended after: ${this.received}`);
      await this.#change(deadline);
    }
  }

  /** Resolves when the server has ended the connection, to the responses that were not read before. */
  async end(): Promise<readonly RawResponse[]> {
    const deadline = AbortSignal.timeout(patienceMs);
    while (!this.#ended && !this.socket.destroyed) await this.#change(deadline);
    this.socket.destroy();
    const responses = parseResponses(this.received.subarray(this.#taken), this.#head);
    if (!this.#head) checkErrors(responses);
    return responses;
  }

  #append(chunk: Buffer): void {
    if (this.#length === 0) this.#bytes = chunk;
    else {
      const length = this.#length + chunk.length;
      if (length > this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], 2 * length);
      this.#bytes.set(chunk, this.#length);
    }
    this.#length += chunk.length;
  }

  async #change(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const fail = () => reject(new Error(`no data for ${patienceMs} ms after: ${this.received}`));
    const events = ['data', 'end', 'close', 'error'] as const;
    for (const event of events) this.socket.once(event, resolve);
    signal.addEventListener('abort', fail, { once: true });
    await promise.finally(() => {
      for (const event of events) this.socket.off(event, resolve);
      signal.removeEventListener('abort', fail);
    });
  }
}

/** Sends bytes on a new connection; resolves to as many responses as are wanted, or all when the server has ended it. */
export async function exchange(
  port: number,
  bytes: string,
  { wanted, isHead = false }: { readonly wanted?: number; readonly isHead?: boolean } = {},
): Promise<readonly RawResponse[]> {
  const wire = await Wire.open({ after: () => undefined }, port);
  if (isHead) wire.expectHead();
  wire.write(bytes);
  if (wanted === undefined) return await wire.end();
  const responses: RawResponse[] = [];
  while (responses.length < wanted) responses.push(await wire.next());
  wire.socket.destroy();
  return responses;
}

/** The head of a request with a Host and these further header lines. */
export function head(line: string, ...headers: readonly string[]): string {
  return `${[`${line} HTTP/1.1`, 'Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
}

/** A POST of JSON with its length. */
export function post(path: string, body: string, ...headers: readonly string[]): string {
  const length = `Content-Length: ${Buffer.byteLength(body, 'latin1')}`;
  return head(`POST ${path}`, 'Content-Type: application/json', length, ...headers) + body;
}
