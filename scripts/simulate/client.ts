import { setTimeout as sleep } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import { getUser } from '../../test/kit/grpc.ts';
import type { Address } from './cluster.ts';
import {
  type Answer,
  type Entry,
  type Guard,
  type History,
  pathOf,
  type Query,
  type Request,
  type RequestKind,
} from './history.ts';
import type { Step } from './plan.ts';

/** What all clients and followers of a run share. */
export interface World extends History {
  readonly addresses: readonly Address[];
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
    const { n, kind, record, process, rank, sent } = step;
    const { users, posts } = this.#world;
    const isList = kind === 'list' || kind === 'walk';
    const user = record === 'user' && (isList || kind === 'create') ? undefined : (ranked(users, rank) ?? 1);
    const isPost = record === 'post' && !isList && kind !== 'create';
    // As long as there is no post, the path of one that does not exist.
    const path = isPost ? (ranked(posts, rank) ?? { user: 1, post: 1 }) : { user };
    const request = { step: n, client: this.#number, process, record, ...path };
    if (isList) await this.#list({ ...request, kind: 'list', query: this.#query(step) }, kind === 'walk');
    else if (step.key) await this.#createWithKey({ ...request, kind }, step);
    else await this.#send({ ...request, kind, sent, guard: this.#guard(step, request) });
  }

  /** Reads every user in every process, and every post; for the end of a run. */
  async readAll(step: number): Promise<void> {
    const { users, posts, addresses } = this.#world;
    const request = { step, client: this.#number, process: 0, record: 'user', kind: 'get' } as const;
    for (const user of users) {
      for (const process of addresses.keys()) await this.#send({ ...request, process, user });
      await this.#send({ ...request, kind: 'call', user });
    }
    for (const path of posts) await this.#send({ ...request, record: 'post', ...path });
    await this.#list({ ...request, kind: 'list', query: { limit: 50 } }, true);
  }

  #query({ query = {} }: Step): Query {
    return { ...query, id: query.id?.map((rank) => ranked(this.#world.users, rank) ?? 1) };
  }

  #guard({ guard }: Step, { record, user, post }: Omit<Request, 'kind'>): Guard | undefined {
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

  async #list(request: Request, isWalk: boolean): Promise<void> {
    let { process, step } = request;
    let walk: Request['walk'] = isWalk ? { step } : undefined;
    for (let cursor: string | undefined; ; process += 1) {
      // Each page from another process.
      const { rows, next } = await this.#send({ ...request, process, cursor, walk });
      if (!isWalk || next === undefined) return;
      walk = { step, after: rows?.at(-1) };
      cursor = next;
    }
  }

  async #send(asked: Request): Promise<Entry> {
    const { addresses, now, entries } = this.#world;
    const request = { ...asked, process: asked.process % addresses.length };
    const start = now();
    const address = addresses[request.process];
    const answer = await (request.kind === 'call' ? call : exchange)(address, request).catch(noteOf);
    const entry = { ...request, start, end: now(), ...answer };
    this.#learn(entry);
    entries.push(entry);
    return entry;
  }

  #learn({ kind, record, user = 0, row, version, replayed }: Entry): void {
    if (row === undefined || version === undefined || replayed) return;
    this.#seen.set(`${record} ${row.id}`, version);
    if (kind !== 'create') return;
    if (record === 'user') this.#world.users.push(row.id);
    else this.#world.posts.push({ user, post: row.id });
  }
}

/** The newest is of rank 0. */
function ranked<T>(known: readonly T[], rank: number): T | undefined {
  return known[Math.max(known.length - 1 - rank, 0)];
}

/** A failed request, as the history has it. */
export function noteOf(caught: unknown): Pick<Answer, 'note'> {
  return { note: String(caught instanceof Error ? (caught.cause ?? caught) : caught) };
}

async function call(address: Address | undefined, { user }: Request): Promise<Partial<Answer>> {
  if (address === undefined) return {};
  const outcome = await getUser(address.grpc, user, { deadline: Date.now() + timeoutMs });
  const { code, details, user: row } = outcome;
  return { status: grpcStatus[code] ?? code, ...(row ? { row } : { note: details }) };
}

const methods: Readonly<Partial<Record<RequestKind, string>>> = {
  create: 'POST',
  replace: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
};

async function exchange(address: Address | undefined, request: Request): Promise<Partial<Answer>> {
  const { kind, sent, guard, key, query } = request;
  const tags = guard?.versions === '*' ? '*' : guard?.versions.map((version) => `"${version}"`).join(', ');
  const response = await fetch(`${address?.http}${targetOf(request)}`, {
    method: methods[kind] ?? 'GET',
    headers: {
      ...(sent && { 'content-type': 'application/json' }),
      ...(guard && { [guard.header]: tags }),
      ...(key && { 'idempotency-key': `"${key}"` }),
      ...(query?.count && { prefer: 'count=exact' }),
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

function targetOf(request: Request): string {
  const { kind, record, query = {}, cursor } = request;
  const { count: _, prefix, ...others } = query;
  if (kind === 'invalid') return '/users/0x1';
  const parameters = { [record === 'user' ? 'name' : 'title']: prefix, ...others, cursor };
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return search.size === 0 ? pathOf(request) : `${pathOf(request)}?${search}`;
}
