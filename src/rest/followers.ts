import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Change,
  type ChangePage,
  type ChangeQuery,
  isWanted,
  maxChangeLimit,
} from '../domain/change.ts';
import { DomainError } from '../domain/errors.ts';
import type { ChangeFeed } from '../domain/repository.ts';
import type { HttpRequest } from '../http/request.ts';
import { cloudEvent } from './changes.ts';
import { fitting } from './paging.ts';

// Proxies close a connection that was idle for a minute or less.
const heartbeatMs = 15_000;
// Minimum time before a client connects again, and before a follower reads again after a failure.
const retryMs = 1_000;

/** A read of the changes after a position. Each change is formatted once for all followers. */
interface SharedRead {
  readonly after: number;
  readonly basePath: string;
  readonly page: Promise<ChangePage>;
  readonly events: Map<Change, string>;
}

/**
 * The clients that follow the changes as a stream. Each follower reads the changes after its own position, as fast as
 * its client receives them; followers at the same position share a read. A slow client needs no buffer: after the
 * write timeout its connection is closed like any other, and the client resumes.
 */
export class Followers {
  readonly #feed: ChangeFeed;
  readonly #max: number;
  readonly #onFailure: (cause: unknown) => void;
  /** Each ends a follower. */
  readonly #enders = new Set<AbortController>();
  /** The newest shared read since the feed changed. */
  #shared: SharedRead | undefined;
  #sent = 0;
  #draining = false;

  /** `max` is the maximum number of followers; 0 for no limit. */
  constructor(feed: ChangeFeed, max: number, onFailure: (cause: unknown) => void) {
    this.#feed = feed;
    this.#max = max;
    this.#onFailure = onFailure;
  }

  /** The number of followers. */
  get open(): number {
    return this.#enders.size;
  }

  /** The number of changes sent to followers. */
  get sent(): number {
    return this.#sent;
  }

  /** Ends all streams: their clients connect again, and resume. */
  disconnect(): void {
    for (const ender of this.#enders) ender.abort();
  }

  /** Ends all current and later streams: their clients connect to another process. */
  drain(): void {
    this.#draining = true;
    this.disconnect();
  }

  /** Sends the changes that match a query as server-sent events, until the client disconnects. */
  async *follow(query: ChangeQuery, request: HttpRequest): AsyncGenerator<string> {
    if (this.#max > 0 && this.open >= this.#max) {
      throw new DomainError('overloaded', 'too many clients follow the changes');
    }
    request.becomeLongLived();
    // Set by every notification, so that none is missed between a read and the wait.
    let isWoken = false;
    let isBeat = false;
    let proceed = (): void => undefined;
    const unwatch = this.#feed.watch(() => {
      this.#shared = undefined;
      isWoken = true;
      proceed();
    });
    const heartbeat = setInterval(() => {
      isBeat = true;
      proceed();
    }, heartbeatMs);
    const ender = new AbortController();
    const { signal } = ender;
    signal.addEventListener('abort', () => proceed());
    const end = (): void => ender.abort();
    request.signal.addEventListener('abort', end);
    if (this.#draining || request.signal.aborted) end();
    this.#enders.add(ender);

    let { after, limit } = query;
    let isBehind = true;
    try {
      // Randomized, because otherwise all clients of an ended process would connect again at the same moment.
      yield `retry: ${retryMs + Math.floor(Math.random() * retryMs)}\nid: ${after}\n\n`;
      while (!signal.aborted) {
        let texts: readonly string[] = [];
        if (isBehind || isWoken) {
          isWoken = false;
          const read = await this.#read({ ...query, after, limit }, isBehind, request, signal);
          ({ texts, after, limit, isBehind } = read);
        }
        if (texts.length > 0) {
          this.#sent += texts.length;
          yield texts.join('');
        } else if (isBeat) {
          isBeat = false;
          // With this id, a client resumes here even if no change matched its filter.
          yield `: nothing new\nid: ${after}\n\n`;
        } else if (!isBehind && !isWoken && !signal.aborted) {
          await new Promise<void>((resolve) => {
            proceed = resolve;
          });
        }
      }
    } catch (caught) {
      if (signal.aborted) return;
      const { kind, message } = DomainError.from(caught);
      if (kind !== 'gone') throw caught;
      yield `event: gone\ndata: ${JSON.stringify({ error: message })}\n\n`;
    } finally {
      unwatch();
      clearInterval(heartbeat);
      request.signal.removeEventListener('abort', end);
      this.#enders.delete(ender);
    }
  }

  /** Reads the next chunk, and the position and limit to continue with. Changes that do not fit are read again. */
  async #read(query: ChangeQuery, isBehind: boolean, request: HttpRequest, signal: AbortSignal) {
    const { basePath, chunkBytes } = request;
    // A follower that is behind lets the store filter. Those that are up to date share one unfiltered read.
    const { page, events } = isBehind
      ? { page: await this.#feed.read(query, { signal }), events: new Map<Change, string>() }
      : await this.#readShared(query.after, basePath, signal);
    const wanted = page.changes.filter((change) => isWanted(change, query));
    const eventOf = (change: Change): string => {
      const known = events.get(change);
      if (known !== undefined) return known;
      const event = `id: ${change.position}\ndata: ${cloudEvent(change, basePath)}\n\n`;
      events.set(change, event);
      return event;
    };
    const { texts, last } = fitting(wanted, eventOf, chunkBytes);
    return {
      texts,
      after: last?.position ?? page.next,
      limit: last === undefined ? Math.min(query.limit * 2, maxChangeLimit) : texts.length,
      isBehind: page.more || last !== undefined,
    };
  }

  /** Reads once for all followers at a position. Tries again after a failure. */
  async #readShared(after: number, basePath: string, signal: AbortSignal) {
    for (;;) {
      const isSame = this.#shared?.after === after && this.#shared.basePath === basePath;
      if (this.#shared === undefined || !isSame) this.#shared = this.#share(after, basePath);
      const { page, events } = this.#shared;
      try {
        return { page: await page, events };
      } catch (caught) {
        if (isGone(caught)) throw caught;
        await sleep(retryMs, undefined, { signal });
      }
    }
  }

  #share(after: number, basePath: string): SharedRead {
    const page = this.#feed.read({ after, limit: maxChangeLimit });
    const shared = { after, basePath, page, events: new Map<Change, string>() };
    page.catch((caught: unknown) => {
      if (this.#shared === shared) this.#shared = undefined;
      if (!isGone(caught)) this.#onFailure(caught);
    });
    return shared;
  }
}

function isGone(caught: unknown): boolean {
  return DomainError.from(caught).kind === 'gone';
}
