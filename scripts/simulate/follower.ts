import { get, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { World } from './client.ts';
import type { Change, FeedEntry } from './history.ts';
import type { FollowerPlan } from './plan.ts';

const idleMs = 30;
const timeoutMs = 6_000;
const pageLimit = 50;

/** Follows `/changes` from the first one, by pages or as a stream that it leaves and resumes. */
export class Follower {
  readonly #plan: FollowerPlan;
  readonly #world: World;
  readonly #record: (entry: FeedEntry) => void;
  #after = 0;
  #round = 0;
  #end: number | undefined;

  constructor(plan: FollowerPlan, world: World, record: (entry: FeedEntry) => void) {
    this.#plan = plan;
    this.#world = world;
    this.#record = record;
  }

  /** Lets it go on to a position, and end there. */
  finish(position: number): void {
    this.#end = position;
  }

  async run(): Promise<void> {
    const { n, mode } = this.#plan;
    while (this.#end === undefined || this.#after < this.#end) {
      const { addresses, now } = this.#world;
      const process = (n + this.#round) % addresses.length;
      this.#round += 1;
      const after = this.#after;
      const start = now();
      const changes: Change[] = [];
      let outcome: { status?: number; note?: string; next?: number };
      try {
        outcome = await (mode === 'stream' ? this.#stream(process, changes) : this.#page(process, changes));
      } catch (caught) {
        outcome = { note: caught instanceof Error ? caught.message : String(caught) };
      }
      this.#after = outcome.next ?? changes.at(-1)?.position ?? after;
      const { next: _next, ...shown } = outcome;
      this.#record({ follower: n, process, after, changes, start, end: now(), ...shown });
      if (changes.length === 0) await sleep(idleMs);
    }
  }

  async #page(process: number, changes: Change[]): Promise<{ status: number; note?: string; next?: number }> {
    const base = this.#world.addresses[process]?.http;
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await fetch(`${base}/changes?after=${this.#after}&limit=${pageLimit}`, { signal });
    const text = await response.text();
    if (response.status !== 200) return { status: response.status, note: text };
    changes.push(...JSON.parse(text).map(toChange));
    const next = /[?&]after=(\d+)/.exec(response.headers.get('link') ?? '')?.[1];
    return { status: 200, ...(next !== undefined && { next: Number(next) }) };
  }

  /** Resolves when it has had enough events, or when no more come. */
  #stream(process: number, changes: Change[]): Promise<{ status: number }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number }>();
    const headers = { accept: 'text/event-stream', 'last-event-id': String(this.#after) };
    const url = `${this.#world.addresses[process]?.http}/changes`;
    const started = performance.now();
    const request = get(url, { headers, agent: false }, (response: IncomingMessage) => {
      const status = response.statusCode ?? 0;
      let text = '';
      const end = () => resolve({ status });
      response.on('end', end).on('error', end);
      response.setEncoding('utf8').on('data', (chunk: string) => {
        const blocks = (text + chunk).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          const data = /^data: ?(.*)$/m.exec(block)?.[1];
          if (status === 200 && data !== undefined) changes.push(toChange(JSON.parse(data)));
        }
        const last = changes.at(-1)?.position ?? 0;
        if (changes.length >= this.#plan.leaveAfter || last >= (this.#end ?? Number.POSITIVE_INFINITY))
          leave();
      });
    });
    request.on('error', reject);
    const leave = () => {
      request.destroy();
      resolve({ status: 200 });
    };
    const watch = setInterval(() => {
      const isDone = this.#end !== undefined && (changes.at(-1)?.position ?? this.#after) >= this.#end;
      if (isDone || performance.now() - started > timeoutMs) leave();
    }, idleMs);
    promise.finally(() => clearInterval(watch)).catch(() => undefined);
    return promise;
  }
}

interface CloudEvent {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly data: Change['row'];
}

export function toChange({ id, type, version, data }: CloudEvent): Change {
  return { position: Number(id), type, version, row: data };
}

/** The position of the last change there is. */
export async function lastPosition(base: string): Promise<number> {
  for (let after = 0; ; ) {
    const response = await fetch(`${base}/changes?after=${after}&limit=1000`);
    const changes: CloudEvent[] = JSON.parse(await response.text());
    if (!response.ok || changes.length === 0) return after;
    after = Number(changes.at(-1)?.id);
  }
}
