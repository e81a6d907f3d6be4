import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { status as grpcStatus } from '@grpc/grpc-js';
import type { UsersClient } from '../../generated/users_grpc_pb.js';
import { getUser } from '../../test/kit/grpc.ts';
import { type Call, exchange, timeoutMs } from './exchange.ts';
import type { Entry, Guard, RecordKind } from './history.ts';
import type { Step } from './plan.ts';

/** Where a process is reached. */
export interface Address {
  readonly http: string;
  readonly grpc: UsersClient;
}

/** What all clients of a run share. */
export interface World {
  readonly addresses: readonly Address[];
  /** Milliseconds since the run began. */
  readonly now: () => number;
  readonly record: (entry: Entry) => void;
  /** Ids that some response has shown, oldest first. */
  readonly users: number[];
  readonly posts: { readonly user: number; readonly post: number }[];
}

const retries = 6;
const retryPauseMs = 150;

/** One client: makes its steps one after another, and remembers the versions it has seen. */
export class Client {
  readonly #number: number;
  readonly #world: World;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #seen = new Map<string, number>();

  constructor(number: number, world: World) {
    this.#number = number;
    this.#world = world;
  }

  close(): void {
    this.#agent.destroy();
  }

  async run(step: Step): Promise<void> {
    await sleep(step.pauseMs);
    const { kind, record, process, sent } = step;
    const { users, posts } = this.#world;
    const place = record === 'post' && kind !== 'create' && kind !== 'list' && kind !== 'walk';
    const target = place ? ranked(posts, step.rank) : { user: ranked(users, step.rank) ?? 1 };
    // Before there is a post, the address of one that is not there.
    const at = target ?? { user: 1, post: 1 };
    const call: Call = { step, process, ...(record === 'user' && kind === 'create' ? {} : at), kind: 'get' };
    switch (kind) {
      case 'create':
        return this.#create({ ...call, kind });
      case 'list':
      case 'walk':
        return this.#list({ ...call, kind: 'list', ...(record === 'user' && { user: undefined }) } as Call);
      case 'call':
        return this.#callGrpc({ ...call, kind });
      default: {
        const guard = this.#guard(step, call);
        await this.#send({ ...call, kind, ...(sent && { sent }), ...(guard && { guard }) });
      }
    }
  }

  /** Reads a user and its posts; for the end of a run. */
  async readAll(step: Step): Promise<void> {
    const { users } = this.#world;
    for (const user of users) {
      for (const process of this.#world.addresses.keys())
        await this.#send({ step, kind: 'get', process, user });
      await this.#callGrpc({ step, kind: 'call', process: 0, user });
    }
    for (const { user, post } of this.#world.posts) {
      await this.#send({ step: { ...step, record: 'post' }, kind: 'get', process: step.process, user, post });
    }
    await this.#list({ step: { ...step, kind: 'walk' }, kind: 'list', process: 0, query: { limit: 50 } });
  }

  #guard({ guard }: Step, { user, post }: Call): Guard | undefined {
    const seen = this.#seen.get(`${user}/${post ?? ''}`);
    if (guard === 'any') return { header: 'if-match', versions: '*' };
    if (guard === 'none' || seen === undefined) return undefined;
    if (guard === 'unless seen') return { header: 'if-none-match', versions: [seen] };
    return { header: 'if-match', versions: [guard === 'seen' ? seen : Math.max(seen - 1, 1)] };
  }

  /** With a key, sends copies at once, and again until each has been answered. */
  async #create(call: Call): Promise<void> {
    const { step } = call;
    if (step.key === undefined) {
      await this.#send({ ...call, ...(step.sent && { sent: step.sent }) });
      return;
    }
    const { copies, other } = step.key;
    const bodies = Array.from({ length: copies }, () => step.sent);
    if (other !== undefined) bodies.push(other);
    const attempts = bodies.map(async (sent, i) => {
      for (let attempt = 0; attempt < retries; attempt += 1) {
        const process = step.process + i + attempt;
        const { status } = await this.#send({
          ...call,
          process,
          key: `key ${step.n}`,
          ...(sent && { sent }),
        });
        if (status !== undefined && status !== 409 && Number(status) < 500) return;
        await sleep(retryPauseMs);
      }
    });
    await Promise.all(attempts);
  }

  async #list(call: Call): Promise<void> {
    const { step } = call;
    const given = call.query ?? step.query ?? {};
    const id = given.id?.map((rank) => ranked(this.#world.users, rank) ?? 1);
    const query = { ...given, ...(id && { id }) };
    const isWalk = step.kind === 'walk';
    let page: Call = { ...call, query, ...(isWalk && { walk: { step: step.n } }) };
    for (;;) {
      const { rows, next } = await this.#send(page);
      if (!isWalk || next === undefined || rows === undefined) return;
      const after = rows.at(-1);
      // Another process continues the walk.
      page = {
        ...page,
        process: page.process + 1,
        cursor: next,
        walk: { step: step.n, ...(after && { after }) },
      };
    }
  }

  async #callGrpc(call: Call): Promise<void> {
    const { addresses, now, record } = this.#world;
    const process = call.process % addresses.length;
    const address = addresses[process];
    if (address === undefined) return;
    const start = now();
    const deadline = Date.now() + timeoutMs;
    const { user, code, details } = await getUser(address.grpc, call.user, { deadline });
    record({
      ...this.#entryOf(call, process, start),
      status: grpcStatus[code] ?? code,
      ...(user && { row: { id: user.id, name: user.name } }),
      ...(code !== 0 && code !== grpcStatus.NOT_FOUND && { note: details }),
    });
  }

  async #send(call: Call): Promise<Entry & { readonly next?: string | undefined }> {
    const { addresses, now, record } = this.#world;
    const process = call.process % addresses.length;
    const start = now();
    let entry: Entry;
    let next: string | undefined;
    try {
      const { answer, next: cursor } = await exchange(addresses[process]?.http ?? '', call, this.#agent);
      next = cursor;
      entry = { ...this.#entryOf(call, process, start), ...answer };
    } catch (caught) {
      const note = caught instanceof Error ? caught.message : String(caught);
      entry = { ...this.#entryOf(call, process, start), note };
    }
    this.#learn(call.step.record, entry);
    record(entry);
    return { ...entry, next };
  }

  #entryOf(
    { step, kind, user, post, sent, guard, key, query, walk }: Call,
    process: number,
    start: number,
  ): Entry {
    const record = step.record;
    const path = { ...(user !== undefined && { user }), ...(post !== undefined && { post }) };
    const asked = { ...(sent && { sent }), ...(guard && { guard }), ...(key && { key }) };
    const listed = kind === 'list' ? { query: query ?? {}, ...(walk && { walk }) } : {};
    const end = this.#world.now();
    return {
      step: step.n,
      client: this.#number,
      process,
      kind,
      record,
      ...path,
      ...asked,
      ...listed,
      start,
      end,
    };
  }

  #learn(record: RecordKind, { kind, user, row, version, replayed }: Entry): void {
    if (row === undefined || version === undefined) return;
    const { users, posts } = this.#world;
    if (kind === 'create' && replayed !== true) {
      if (record === 'user') users.push(row.id);
      else posts.push({ user: user ?? 0, post: row.id });
    }
    if (replayed !== true) this.#seen.set(record === 'user' ? `${row.id}/` : `${user}/${row.id}`, version);
  }
}

/** The newest is of rank 0. */
function ranked<T>(known: readonly T[], rank: number): T | undefined {
  return known[Math.max(known.length - 1 - rank, 0)];
}
