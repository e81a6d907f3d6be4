import { type Agent, request } from 'node:http';
import type { Entry, Guard, Query, Row, Sent } from './history.ts';
import type { Step } from './plan.ts';

/** A client that waits longer than this gives up, and does not know what happened. */
export const timeoutMs = 6_000;

/** A request to be sent. */
export interface Call {
  readonly step: Step;
  readonly kind: Entry['kind'];
  readonly process: number;
  readonly user?: number;
  readonly post?: number;
  readonly sent?: Sent;
  readonly guard?: Guard;
  readonly key?: string;
  readonly query?: Query;
  readonly cursor?: string;
  readonly walk?: NonNullable<Entry['walk']>;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: NodeJS.Dict<string | string[]>;
}

/** Sends a request; resolves to what the history has of its response, and to the cursor of the next page. */
export async function exchange(
  base: string,
  call: Call,
  agent: Agent,
): Promise<{ readonly answer: Partial<Entry>; readonly next: string | undefined }> {
  const response = await send(base, call, agent);
  const next = /[?&]cursor=([^>&]+)>; rel="next"/.exec(String(response.headers['link']))?.[1];
  return { answer: parseAnswer(response, next !== undefined), next };
}

function send(base: string, call: Call, agent: Agent): Promise<Answer> {
  const { sent, guard, key, query, kind } = call;
  const body = sent === undefined ? undefined : JSON.stringify(sent);
  const headers = {
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    }),
    ...(guard && { [guard.header]: formatTags(guard) }),
    ...(key && { 'idempotency-key': `"${key}"` }),
    ...(query?.count && { prefer: 'count=exact' }),
  };
  return new Promise((resolve, reject) => {
    const options = { method: methods[kind], agent, headers, timeout: timeoutMs };
    const outgoing = request(base + pathOf(call), options, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if (!response.complete) reject(new Error('the response was cut'));
        else resolve({ status: response.statusCode ?? 0, text, headers: response.headers });
      });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`no response in ${timeoutMs} ms`)));
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

const methods: Readonly<Record<Entry['kind'], string>> = {
  create: 'POST',
  get: 'GET',
  call: '',
  replace: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  list: 'GET',
  invalid: 'GET',
};

function pathOf({ step, kind, user, post, query = {}, cursor }: Call): string {
  if (kind === 'invalid') return '/users/0x1';
  if (step.record === 'user' && kind !== 'list') return user === undefined ? '/users' : `/users/${user}`;
  const list = user === undefined ? '/users' : `/users/${user}/posts`;
  if (post !== undefined) return `${list}/${post}`;
  if (kind !== 'list') return list;
  const { prefix, role, id, sort, limit, page } = query;
  const parameters = { [user === undefined ? 'name' : 'title']: prefix, role, id, sort, limit, page, cursor };
  const search = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return `${list}?${search.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&')}`;
}

function formatTags({ versions }: Guard): string {
  return versions === '*' ? '*' : versions.map((version) => `"${version}"`).join(', ');
}

function parseAnswer({ status, text, headers }: Answer, hasNext: boolean): Partial<Entry> {
  const tag = /^"(\d+)"$/.exec(String(headers['etag']))?.[1];
  const body: unknown = text === '' ? undefined : JSON.parse(text);
  const total = headers['x-total-count'];
  return {
    status,
    ...(tag !== undefined && { version: Number(tag) }),
    ...(headers['idempotency-replayed'] === 'true' && { replayed: true }),
    ...(total !== undefined && { total: Number(total) }),
    ...(status >= 400 && { note: text }),
    ...(status < 300 &&
      body !== undefined &&
      (Array.isArray(body) ? { rows: body as Row[], hasNext } : { row: body as Row })),
  };
}
