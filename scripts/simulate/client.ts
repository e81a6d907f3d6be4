import { setTimeout as sleep } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import { getUser } from '../../test/kit/grpc.ts';
import type { Node } from './cluster.ts';
import { type Entry, type History, pathOf, type Request, type Response } from './history.ts';
import type { Step } from './plan.ts';

/** What all clients and followers of a run share. */
export interface World extends History {
  readonly nodes: readonly Node[];
  /** Milliseconds since the run began. */
  readonly now: () => number;
  /** Ids that responses have shown, oldest first. */
  readonly users: number[];
  readonly posts: { readonly user: number; readonly post: number }[];
}

/** When a client gives up, without knowing whether its write happened. */
export const timeoutMs = 6_000;
const retries = 6;
const retryPauseMs = 150;

/** Makes its steps one after another, and remembers the versions it has seen. */
export class Client {
  readonly #number: number;
  readonly #world: World;
  readonly #seen = new Map<string, number>();

  constructor(number: number, world: World) {
    this.#number = number;
    this.#world = world;
  }

  async run(step: Step): Promise<void> {
    await sleep(step.pauseMs);
    const { n, kind, record, process, rank, sent, query = {} } = step;
    const { users, posts } = this.#world;
    const isList = kind === 'list' || kind === 'walk';
    const user = record === 'user' && (isList || kind === 'create') ? undefined : (ranked(users, rank) ?? 1);
    const isPost = record === 'post' && !isList && kind !== 'create';
    // As long as there is no post, the path of one that does not exist.
    const path = isPost ? (ranked(posts, rank) ?? { user: 1, post: 1 }) : { user };
    const request = { step: n, client: this.#number, process, record, ...path };
    if (isList) {
      const id = query.id?.map((rank) => ranked(users, rank) ?? 1);
      await this.#list({ ...request, kind: 'list', query: { ...query, id } }, kind === 'walk');
    } else if (step.key) await this.#createWithKey({ ...request, kind }, step);
    else await this.#send({ ...request, kind, sent, guard: this.#guard(step, request) });
  }

  /** Reads every user in every process, and every post; for the end of a run. */
  async readAll(step: number): Promise<void> {
    const { users, posts, nodes } = this.#world;
    const request = { step, client: this.#number, process: 0, record: 'user', kind: 'get' } as const;
    for (const user of users) {
      for (const process of nodes.keys()) await this.#send({ ...request, process, user });
      await this.#send({ ...request, kind: 'call', user });
    }
    for (const path of posts) await this.#send({ ...request, record: 'post', ...path });
    await this.#list({ ...request, kind: 'list', query: { limit: 5 } }, true);
  }

  #guard({ guard }: Step, { record, user, post }: Omit<Request, 'kind'>): Request['guard'] {
    const seen = this.#seen.get(`${record} ${post ?? user}`);
    if (guard === 'any') return { header: 'if-match', versions: '*' };
    if (guard === 'none' || seen === undefined) return undefined;
    if (guard === 'unless seen') return { header: 'if-none-match', versions: [seen] };
    return { header: 'if-match', versions: [guard === 'seen' ? seen : Math.max(seen - 1, 1)] };
  }

  /** Sends the copies at once, and repeats each until its response is final. */
  async #createWithKey(request: Request, { n, process, key, sent }: Step): Promise<void> {
    const bodies = [...Array(key?.copies).fill(sent), ...(key?.other ? [key.other] : [])];
    const attempts = bodies.map(async (sent, i) => {
      for (let attempt = 0; attempt < retries; attempt += 1) {
        const place = process + i + attempt;
        const { status } = await this.#send({ ...request, process: place, key: `key ${n}`, sent });
        if (status !== undefined && status !== 409 && Number(status) < 500) return;
        await sleep(retryPauseMs);
      }
    });
    await Promise.all(attempts);
  }

  /** Requests a page, or all pages of a walk, each from another process. */
  async #list(request: Request, isWalk: boolean): Promise<void> {
    const { step } = request;
    let page = await this.#send({ ...request, ...(isWalk && { walk: { step } }) });
    while (isWalk && page.next !== undefined) {
      const walk = { step, after: page.rows?.at(-1) };
      page = await this.#send({ ...request, process: page.process + 1, cursor: page.next, walk });
    }
  }

  async #send(asked: Request): Promise<Entry> {
    const { nodes, now, entries, users, posts } = this.#world;
    const process = asked.process % nodes.length;
    const node = nodes[process];
    if (node === undefined) throw new Error('there is no process');
    const start = now();
    const response = await (asked.kind === 'call' ? call : exchange)(node, asked).catch(noteOf);
    const entry = { ...asked, process, start, end: now(), ...response };
    entries.push(entry);
    const { kind, record, user = 0, row, version, replayed } = entry;
    if (row === undefined || version === undefined || replayed) return entry;
    this.#seen.set(`${record} ${row.id}`, version);
    if (kind === 'create' && record === 'user') users.push(row.id);
    if (kind === 'create' && record === 'post') posts.push({ user, post: row.id });
    return entry;
  }
}

/** The newest is of rank 0. */
function ranked<T>(known: readonly T[], rank: number): T | undefined {
  return known[Math.max(known.length - 1 - rank, 0)];
}

/** A failed request, as the history has it. */
export function noteOf(caught: unknown): Response {
  return { note: String(caught instanceof Error ? (caught.cause ?? caught) : caught) };
}

async function call({ grpc }: Node, { user }: Request): Promise<Response> {
  const { code, details, user: row } = await getUser(grpc, user, { deadline: Date.now() + timeoutMs });
  return { status: grpcStatus[code] ?? code, ...(row ? { row } : { note: details }) };
}

const methods: Readonly<Record<string, string>> = {
  create: 'POST',
  replace: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
};

async function exchange({ http }: Node, request: Request): Promise<Response> {
  const { kind, record, sent, guard, key, query = {}, cursor } = request;
  const { count, prefix, ...others } = query;
  const url = new URL(kind === 'invalid' ? '/users/0x1' : pathOf(request), http);
  const parameters = { [record === 'user' ? 'name' : 'title']: prefix, ...others, cursor };
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  const tags = guard?.versions === '*' ? '*' : guard?.versions.map((version) => `"${version}"`).join(', ');
  const response = await fetch(url, {
    method: methods[kind] ?? 'GET',
    headers: {
      ...(sent && { 'content-type': 'application/json' }),
      ...(guard && { [guard.header]: tags }),
      ...(key && { 'idempotency-key': `"${key}"` }),
      ...(count && { prefer: 'count=exact' }),
    },
    body: sent ? JSON.stringify(sent) : null,
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { status, headers } = response;
  const text = await response.text();
  const body = status < 300 && text !== '' && JSON.parse(text);
  const version = /^"(\d+)"$/.exec(headers.get('etag') ?? '')?.[1];
  const next = /[?&]cursor=([^>&]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
  const total = headers.get('x-total-count');
  return {
    status,
    ...(version && { version: Number(version) }),
    ...(next && { next }),
    ...(total && { total: Number(total) }),
    ...(headers.get('idempotency-replayed') === 'true' && { replayed: true }),
    ...(status >= 400 && { note: text }),
    ...(body && (Array.isArray(body) ? { rows: body } : { row: body })),
  };
}
