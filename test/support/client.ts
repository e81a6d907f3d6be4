import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { validateExchange } from '../kit/openapi.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed body if it is JSON. */
  readonly json: unknown;
}

export interface RequestOptions {
  /** The body as a value. It is sent as `application/json` unless `headers` has another type. */
  readonly json?: unknown;
  /** The body as text or bytes. */
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** The path at which the service is mounted in its host. */
  readonly basePath?: string;
  /** Skips the check against the document, for responses that no real store causes. */
  readonly undocumented?: boolean;
}

/**
 * Sends `METHOD /target` with the target byte for byte, reads the complete response, and checks it against
 * the OpenAPI document.
 */
export async function send(base: string, line: string, options: RequestOptions = {}): Promise<Answer> {
  const response = await open(base, line, options);
  const text = Buffer.concat(await response.toArray()).toString();
  const isJson = response.headers['content-type']?.includes('json') === true && text !== '';
  const json: unknown = isJson ? JSON.parse(text) : undefined;
  const answer = { status: response.statusCode ?? 0, headers: response.headers, text, json };
  if (options.undocumented !== true) validate(line, options.basePath ?? '', answer);
  return answer;
}

function validate(line: string, basePath: string, { status, headers, text }: Answer): void {
  const [method = '', target = ''] = line.split(' ', 2);
  assert.ok(target.startsWith(basePath), `${target} must be below ${basePath}`);
  const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  const answer = { status, headers: Object.fromEntries(flat), body: text };
  validateExchange(method, target.slice(basePath.length), answer);
}

/** Sends a request and resolves at the head of the response. The caller reads the body. */
export async function open(
  base: string,
  line: string,
  options: RequestOptions = {},
): Promise<IncomingMessage> {
  const [method, target] = line.split(' ', 2);
  const { hostname, port } = new URL(base);
  const content = options.json === undefined ? options.body : JSON.stringify(options.json);
  const headers = {
    ...(options.json !== undefined && { 'content-type': 'application/json' }),
    ...options.headers,
  };
  const outgoing = request({ host: hostname, port, method, path: target, headers });
  outgoing.end(content);
  const [response]: IncomingMessage[] = await once(outgoing, 'response');
  if (response === undefined) throw new Error('no response');
  return response;
}

/** The message of an error response. */
export function errorOf({ json }: Answer): string {
  const body = typeof json === 'object' && json !== null ? Object.entries(json) : [];
  const [entry] = body;
  if (body.length !== 1 || entry?.[0] !== 'error' || typeof entry[1] !== 'string') {
    throw new Error(`not {"error": message}: ${JSON.stringify(json)}`);
  }
  return entry[1];
}
