import { setTimeout as sleep } from 'node:timers/promises';
import type { Change, ChangePage, ChangeQuery } from '../domain/change.ts';
import { isWanted, maxChangeLimit } from '../domain/change.ts';
import { DomainError } from '../domain/errors.ts';
import { coalesced } from '../domain/promises.ts';
import type { ChangeFeed } from '../domain/repository.ts';
import type { HttpRequest } from '../http/request.ts';
import { scheduler } from '../http/scheduler.ts';
import type { Observe } from '../telemetry/events.ts';
import { fitting, maxReadRows } from './paging.ts';
import { cloudEvent } from './resources.ts';

// How many of the newest changes are kept in memory. A follower that is further behind reads from the store.
const maxRecent = 400;
// Some proxies close a connection after less than a minute without data.
const heartbeatMs = 15_000;
// Minimum time before a client connects again, and before the reader retries.
const retryMs = 1_000;
// How many changes a follower first reads from the store, until their length is known.
const firstLimit = 4;

/** Continues after `after`, and reads at most `limit` changes at a time from the store. */
interface Follower {
  after: number;
  limit: number;
}

/** A change with its text as a server-sent event without a mount path, which all followers share. */
type RecentChange = Change & { readonly text: string };

/** The newest changes that were read: all after the position `from`, up to the position `to`. */
class Recent {
  readonly #changes: RecentChange[] = [];
  /** Whether `to` has been the newest position. A reader starts where its first follower is, perhaps far behind. */
  hasCaughtUp: boolean;
  from: number;
  to: number;

  constructor(position: number, hasCaughtUp: boolean) {
    this.hasCaughtUp = hasCaughtUp;
    this.from = position;
    this.to = position;
  }

  /** Adds the page after `to`, and drops the oldest changes. */
  add({ changes, next }: ChangePage): void {
    this.#changes.push(...changes.map((change) => ({ ...change, text: toText(change, '') })));
    this.to = next;
    const dropped = this.#changes.splice(0, this.#changes.length - maxRecent);
    this.from = Math.max(this.from, dropped.at(-1)?.position ?? 0);
  }

  /** `undefined` for a position that only the store can check. */
  pageAfter(position: number): Pick<ChangePage, 'changes' | 'next'> | undefined {
    if (position < this.from || position > this.to) return undefined;
    const start = this.#changes.findLastIndex((change) => change.position <= position) + 1;
    return { changes: this.#changes.slice(start), next: this.to };
  }
}

/**
 * The clients that follow the changes as a stream. One reader reads new changes for all. Each follower sends them
 * as fast as its client reads. A slow client needs no buffer: after the write timeout it is disconnected and resumes.
 */
export class Followers {
  readonly feed: ChangeFeed;
  readonly #max: number;
  readonly #observe: Observe;
  readonly #wakes = new Set<() => void>();
  /** Replaced when the reader starts again. */
  #recent = new Recent(0, false);
  /** Reads new changes. Calls during a read cause one more read. */
  readonly #read = coalesced(() => this.#readNew());
  #beats = 0;
  sent = 0;
  #stop: () => void = () => undefined;
  /** Incremented when all followers must connect again. Requests whose keys were checked earlier end at once. */
  epoch = 0;

  /** `max` is the maximum number of followers; 0 for no limit. */
  constructor(feed: ChangeFeed, max: number, observe: Observe) {
    this.feed = feed;
    this.#max = max;
    this.#observe = observe;
  }

  get open(): number {
    return this.#wakes.size;
  }

  /** Ends all streams: their clients connect again, and resume. While draining, they connect to another process. */
  disconnect(): void {
    this.epoch += 1;
    this.#wake();
  }

  /** Sends the changes after a position, and all later ones, as server-sent events until the client disconnects. */
  async *follow(query: ChangeQuery, request: HttpRequest, epoch = this.epoch): AsyncGenerator<string> {
    if (this.#max > 0 && this.open >= this.#max)
      throw new DomainError('overloaded', 'too many clients follow the changes');
    request.becomeLongLived();
    const { signal } = request;
    let woken = Promise.withResolvers<void>();
    const wake = (): void => woken.resolve();
    const isOver = (): boolean => signal.aborted || request.listener.draining || epoch !== this.epoch;
    let beats = this.#beats;
    try {
      this.#wakes.add(wake);
      if (this.open === 1) this.#start(query.after);
      signal.addEventListener('abort', wake);
      const follower: Follower = { after: query.after, limit: firstLimit };
      // Randomized, because otherwise all clients of an ended process would connect again at the same moment.
      yield `retry: ${retryMs + Math.floor(Math.random() * retryMs)}\nid: ${follower.after}\n\n`;
      while (!isOver()) {
        const { after } = follower;
        // Before the read, so that no later wake is missed.
        woken = Promise.withResolvers();
        // While its client reads slowly, only this text stays in memory, not the changes that it was made from.
        const text = await this.#nextText(follower, query, request);
        if (text !== '') {
          yield text;
          continue;
        }
        if (beats !== this.#beats) {
          beats = this.#beats;
          // With this id, a client resumes here even if no change matched its filter.
          yield `: nothing new\nid: ${follower.after}\n\n`;
          continue;
        }
        if (follower.after === after) await woken.promise;
        // All followers wake at once, and one that is behind may read many unwanted changes: let other work run.
        await scheduler.pause();
      }
    } catch (caught) {
      if (isOver()) return;
      const { kind, message } = DomainError.from(caught);
      if (kind !== 'gone') throw caught;
      yield `event: gone\ndata: ${JSON.stringify({ error: message })}\n\n`;
    } finally {
      signal.removeEventListener('abort', wake);
      this.#wakes.delete(wake);
      if (this.open === 0) this.#stop();
    }
  }

  /** The next wanted events, as many as fit into a chunk. Reads those that are not recent from the store. */
  async #nextText(follower: Follower, query: ChangeQuery, request: HttpRequest) {
    const { after, limit } = follower;
    const recent = this.#recent.pageAfter(after);
    const { changes, next } = recent ?? (await this.feed.read({ ...query, after, limit }, request));
    const wanted = changes.filter((change) => isWanted(change, query));
    const { texts, last } = fitting(wanted, (one) => toText(one, request.basePath), request.chunkBytes);
    follower.after = Math.max(after, last?.position ?? next);
    if (!recent) follower.limit = last === undefined ? Math.min(limit * 2, maxChangeLimit) : texts.length;
    this.sent += texts.length;
    return texts.join('');
  }

  #start(position: number): void {
    // If `watch` throws, there is nothing to stop.
    this.#stop = () => undefined;
    this.#recent = new Recent(position, false);
    const unwatch = this.feed.watch(() => void this.#read());
    const heartbeat = setInterval(() => {
      this.#beats += 1;
      this.#wake();
    }, heartbeatMs).unref();
    this.#stop = () => {
      unwatch();
      clearInterval(heartbeat);
      this.#recent = new Recent(0, false);
    };
    void this.#read();
  }

  #wake(): void {
    for (const wake of this.#wakes) wake();
  }

  /** Adds the next page to the recent changes. If it is far behind or gone, begins again after the newest change. */
  async #readNew(): Promise<void> {
    if (this.open === 0) return;
    const recent = this.#recent;
    try {
      const page = await this.feed.read({ after: recent.to, limit: maxReadRows }).catch((caught: unknown) => {
        if (DomainError.from(caught).kind === 'gone') return undefined;
        throw caught;
      });
      if (page !== undefined && (recent.hasCaughtUp || !page.more)) {
        recent.hasCaughtUp = true;
        recent.add(page);
        if (page.changes.length > 0) this.#wake();
        if (page.more) void this.#read();
        return await scheduler.pause();
      }
      const position = await this.feed.position();
      this.#recent = new Recent(position, true);
      this.#wake();
    } catch (cause) {
      if (this.open > 0) this.#observe({ type: 'failure', where: 'store', cause });
      // After a failover, the new server may have other changes at these positions.
      if (DomainError.from(cause).kind !== 'overloaded') this.#recent.from = this.#recent.to;
      await sleep(retryMs, undefined, { ref: false });
      // If the new server has just reached this position, its empty page does not wake the followers behind it.
      this.#wake();
      void this.#read();
    }
  }
}

function toText(change: Change | RecentChange, basePath: string): string {
  if ('text' in change && basePath === '') return change.text;
  return `id: ${change.position}\ndata: ${cloudEvent(change, basePath)}\n\n`;
}
