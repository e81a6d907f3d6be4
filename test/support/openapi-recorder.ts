import assert from 'node:assert/strict';
import {
  type Answer,
  examplesOf,
  type MediaTypeObject,
  type Operation,
  operations,
  resolve,
  validateExchange,
} from '../kit/openapi.ts';
import { exchange } from '../kit/wire.ts';

/** A request as it is sent over the connection, and the status that it must cause. */
export interface Case {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers?: readonly string[];
  /** Text is sent unchanged, and any other value as JSON. */
  readonly body?: unknown;
  readonly version?: string;
  /** Default: the service of the recorder. */
  readonly host?: string;
  /** Whether to send an incomplete head. */
  readonly endless?: boolean;
}

export const requestId = '3b1f8a52';
const curl = ['User-Agent: curl/8.14.1', 'Accept: */*'];

/** Sends requests over raw sockets, validates each response and records which were seen. */
export class Recorder {
  readonly #answers = new Map<string, Answer[]>();

  /** Sends a request. If it must fail, sends it again as a client that prefers RFC 9457. */
  async record(port: number, request: Case): Promise<Answer> {
    if (request.status >= 400) {
      const problem = ['Accept: application/problem+json', `X-Request-Id: ${requestId}`];
      await this.#send(port, request, problem);
    }
    return await this.#send(port, request, curl);
  }

  async #send(port: number, request: Case, common: readonly string[]): Promise<Answer> {
    const { method, path, status } = request;
    const [answer] = await exchange(port, wireText(request, common), { wanted: 1 });
    assert.ok(answer, `${method} ${path} got no response`);
    assert.equal(answer.status, status, `${method} ${path}: ${answer.body}`);
    const operation = validateExchange(method, path, answer);
    assert.ok(operation, `${method} ${path} is not an operation`);
    const seen = this.#answers.get(`${operation} ${status}`) ?? [];
    this.#answers.set(`${operation} ${status}`, [...seen, answer]);
    return answer;
  }

  /** Documented responses that were not seen, as `METHOD /path status`. */
  unseen(): string[] {
    return documented().filter((name) => !this.#answers.has(name));
  }

  /** Examples of responses that were not seen, as `METHOD /path status media-type example`. */
  unseenExamples(): string[] {
    const bodies = responseNames().flatMap(({ name, reference, response }) =>
      Object.entries(resolve(response).content ?? {}).map(([type, media]) => {
        return { name, type, examples: examplesOf(media), holder: holderOf(media) ?? reference };
      }),
    );
    const answersWith = (holder: string) =>
      bodies.filter((body) => body.holder === holder).flatMap(({ name }) => this.#answers.get(name) ?? []);
    return bodies.flatMap(({ name, type, examples, holder }) =>
      examples
        .filter((example) => !answersWith(holder).some(like(type, example)))
        .map((example) => `${name} ${type} ${JSON.stringify(example)}`),
    );
  }
}

/** Every documented response, as `METHOD /path status`. */
export function documented(): string[] {
  return responseNames().map(({ name }) => name);
}

function responseNames() {
  return [...operations()].flatMap(([operation, { responses }]: [string, Operation]) =>
    Object.entries(responses).map(([status, response]) => {
      const name = `${operation} ${status}`;
      return { name, response, reference: '$ref' in response ? response.$ref : name };
    }),
  );
}

/** The schema that has the examples of a body; `undefined` if the response has them. */
function holderOf({ schema = {}, examples }: MediaTypeObject): string | undefined {
  return examples === undefined && '$ref' in schema ? schema.$ref : undefined;
}

/** Whether a response matches an example: the same JSON, or a text that contains it. */
function like(type: string, example: unknown): (answer: Answer) => boolean {
  return ({ headers, body }) => {
    if (headers['content-type']?.split(';')[0] !== type) return false;
    if (typeof example === 'string') return body.includes(example);
    return JSON.stringify(JSON.parse(body)) === JSON.stringify(example);
  };
}

function wireText(request: Case, common: readonly string[]): string {
  const { method, path, headers = [], body, version = '1.1', endless = false } = request;
  const host = `Host: ${request.host ?? 'localhost:3000'}`;
  const text = body === undefined || typeof body === 'string' ? (body ?? '') : JSON.stringify(body);
  const names = headers.map((header) => header.split(':')[0]?.toLowerCase());
  const framed = names.includes('content-length') || names.includes('transfer-encoding');
  const entity = [
    ...(text !== '' && !names.includes('content-type') ? ['Content-Type: application/json'] : []),
    ...(text !== '' && !framed ? [`Content-Length: ${Buffer.byteLength(text)}`] : []),
  ];
  const head = [`${method} ${path} HTTP/${version}`, host, ...common, ...entity, ...headers].join('\r\n');
  return endless ? `${head}\r\n` : `${head}\r\n\r\n${text}`;
}
