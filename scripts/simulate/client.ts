import { setTimeout as sleep } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import { getUser } from '../../test/kit/grpc.ts';
import type { Node } from './cluster.ts';
import { type Entry, type History, pathOf, type Request, type Result } from './history.ts';
import type { Plan, Step } from './plan.ts';

// When a client gives up, without knowing whether its write happened.
const timeoutMs = 6_000;
const retries = 6;
const retryPauseMs = 150;
const idleMs = 30;
// When a follower closes its stream, and resumes at the next process.
const streamMs = 1_000;
/** The path of a post that never exists. */
const nowhere = { user: 1, post: 1_000_000_000 };

/** The clients and followers of a run. They share the ids that responses have shown, and the history. */
export class Clients {
  readonly history: History = { entries: [], faults: [] };
  readonly nodes: readonly Node[];
  readonly #startedAt = performance.now();
  /** The oldest first. */
  readonly #users: number[] = [];
  readonly #posts: { readonly user: number; readonly post: number }[] = [];
  /** The version of each record that each client saw last. */
  readonly #seen = new Map<string, number>();

  constructor(nodes: readonly Node[]) {
    this.nodes = nodes;
  }

  /** Milliseconds since the run began. */
  now(): number {
    return Math.round((performance.now() - this.#startedAt) * 1_000) / 1_000;
  }

  async run(step: Step): Promise<void> {
    const { n, client, process, kind, record, rank, sent, key, query } = step;
    await sleep(step.pauseMs);
    const isPage = kind === 'list' || kind === 'walk';
    const isNamed = !isPage && kind !== 'create';
    const user = isNamed || record === 'post' ? (ranked(this.#users, rank) ?? 1) : undefined;
    const path = isNamed && record === 'post' ? (ranked(this.#posts, rank) ?? nowhere) : { user };
    const request: Request = { step: n, client, process, kind, record, ...path };
    if (isPage) {
      const id = query?.id?.map((rank) => ranked(this.#users, rank) ?? 1);
      await this.#list({ ...request, query: { ...query, id } });
    } else if (key) {
      // The copies are sent at once.
      const bodies = [...Array(key.copies).fill(sent), ...(key.other ? [key.other] : [])];
      const copies = bodies.map((sent, i) => ({ ...request, process: process + i, key: `key ${n}`, sent }));
      await Promise.all(copies.map((copy) => this.#repeat(copy)));
    } else await this.send({ ...request, sent, guard: this.#guard(step.guard, request) });
  }

  /** Reads every user in every process, and every post; for the end of a run. */
  async readAll(step: number): Promise<void> {
    const request = { step, client: 0, process: 0, record: 'user', kind: 'get' } as const;
    for (const user of this.#users) {
      for (const process of this.nodes.keys()) await this.send({ ...request, process, user });
      await this.send({ ...request, kind: 'call', user });
    }
    for (const path of this.#posts) await this.send({ ...request, record: 'post', ...path });
    await this.#list({ ...request, kind: 'walk', query: { limit: 5 } });
  }

  /** Sends a request, and records it with its response. */
  async send(asked: Request): Promise<Entry> {
    const process = asked.process % this.nodes.length;
    const node = this.nodes[process];
    if (node === undefined) throw new Error('there is no process');
    const start = this.now();
    const exchange = asked.kind === 'call' ? call : fetchJson;
    const response = await exchange(node, asked).catch((caught: unknown): Result => {
      return { note: String(caught instanceof Error ? (caught.cause ?? caught) : caught) };
    });
    const entry = { ...asked, process, start, end: this.now(), ...response };
    this.history.entries.push(entry);
    const { client, kind, record, user = 0, row, version, replayed } = entry;
    if (row === undefined || version === undefined || replayed) return entry;
    this.#seen.set(`${client} ${record} ${row.id}`, version);
    if (kind === 'create' && record === 'user') this.#users.push(row.id);
    if (kind === 'create' && record === 'post') this.#posts.push({ user, post: row.id });
    return entry;
  }

  /** Follows `/changes` up to a position, which is infinite until the end of a run, by pages or by streams. */
  async follow({ n: client, isStream, leaveAfter }: Plan['followers'][number], end: { position: number }) {
    for (let [position, step] = [0, client]; position < end.position; step += 1) {
      const isOpen = isStream && end.position === Number.POSITIVE_INFINITY;
      const how = isOpen ? { leaveAfter } : { query: { limit: 50 } };
      const request = { step, client, process: step, kind: 'follow', record: 'change', position } as const;
      const { changes = [], next } = await this.send({ ...request, ...how });
      position = Number(next ?? changes.at(-1)?.id ?? position);
      if (changes.length === 0) await sleep(idleMs);
    }
  }

  #guard(guard: Step['guard'], { client, record, user, post }: Request): Request['guard'] {
    const seen = this.#seen.get(`${client} ${record} ${post ?? user}`);
    if (guard === 'any') return { header: 'if-match' };
    if (guard === 'none' || seen === undefined) return undefined;
    if (guard === 'unless seen') return { header: 'if-none-match', version: seen };
    return { header: 'if-match', version: guard === 'seen' ? seen : Math.max(seen - 1, 1) };
  }

  /** Sends a creation with a key until its response is final. */
  async #repeat(creation: Request): Promise<void> {
    for (let attempt = 0; attempt < retries; attempt += 1) {
      const { status = 503 } = await this.send({ ...creation, process: creation.process + attempt });
      if (status !== 409 && status < 500) return;
      await sleep(retryPauseMs);
    }
  }

  /** Requests a page, or all pages of a walk, each from another process. */
  async #list(request: Request): Promise<void> {
    let page = await this.send(request);
    while (request.kind === 'walk' && page.next !== undefined) {
      const after = page.rows?.at(-1);
      page = await this.send({ ...request, process: page.process + 1, cursor: page.next, after });
    }
  }
}

/** The newest is of rank 0. */
function ranked<T>(known: readonly T[], rank: number): T | undefined {
  return known[Math.max(known.length - 1 - rank, 0)];
}

const outages = [grpcStatus.UNAVAILABLE, grpcStatus.DEADLINE_EXCEEDED, grpcStatus.RESOURCE_EXHAUSTED];

async function call({ grpc }: Node, { user }: Request): Promise<Result> {
  const { code, details, user: row } = await getUser(grpc, user, { deadline: Date.now() + timeoutMs });
  if (row) return { status: 200, row };
  const status = code === grpcStatus.NOT_FOUND ? 404 : outages.includes(code) ? 503 : 500;
  return { status, note: `${grpcStatus[code]}: ${details}` };
}

const methods = { create: 'POST', replace: 'PUT', patch: 'PATCH', delete: 'DELETE' };

async function fetchJson({ http }: Node, request: Request): Promise<Result> {
  const { kind, record, sent, guard, key, query = {}, cursor, position, leaveAfter } = request;
  const { count, prefix, ...others } = query;
  const url = new URL(pathOf(request), http);
  const parameters = { [record === 'user' ? 'name' : 'title']: prefix, ...others, cursor };
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  const response = await fetch(url, {
    method: Reflect.get(methods, kind) ?? 'GET',
    headers: {
      ...(sent && { 'content-type': 'application/json' }),
      ...(guard && { [guard.header]: guard.version === undefined ? '*' : `"${guard.version}"` }),
      ...(key && { 'idempotency-key': `"${key}"` }),
      ...(count && { prefer: 'count=exact' }),
      ...(leaveAfter && { accept: 'text/event-stream' }),
      ...(position !== undefined && { 'last-event-id': String(position) }),
    },
    body: sent ? JSON.stringify(sent) : null,
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { status, headers } = response;
  const text = await (leaveAfter && response.ok ? readEvents(response, leaveAfter) : response.text());
  const body = status < 300 && text !== '' ? JSON.parse(text) : undefined;
  const total = headers.get('x-total-count');
  return {
    status,
    version: Number(/^"(\d+)"$/.exec(headers.get('etag') ?? '')?.[1]) || undefined,
    next: /[?&](?:cursor|after)=([^>&]+)[^>]*>; rel="next"/.exec(headers.get('link') ?? '')?.[1],
    total: total === null ? undefined : Number(total),
    replayed: headers.get('idempotency-replayed') === 'true' || undefined,
    note: status < 400 ? undefined : text,
    [kind === 'follow' ? 'changes' : Array.isArray(body) ? 'rows' : 'row']: body,
  };
}

/** Reads the events of a stream until there are enough, or for its time, and returns them as a JSON array. */
async function readEvents({ body }: Response, enough: number): Promise<string> {
  const signal = AbortSignal.timeout(streamMs);
  const blocks = [''];
  try {
    for await (const chunk of body?.pipeThrough(new TextDecoderStream(), { signal }) ?? []) {
      blocks.push(...`${blocks.pop()}${chunk}`.split('\n\n'));
      if (blocks.length > enough) break;
    }
  } catch {
    // The connection may end within an event, which the follower then gets again.
  }
  const events = blocks.slice(0, -1).map((block) => /^data: ?(.*)$/m.exec(block)?.[1]);
  return `[${events.filter(Boolean)}]`;
}
