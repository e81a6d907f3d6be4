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

/** A change, and its text as a server-sent event. */
interface Block {
  readonly change: Change;
  readonly text: string;
}

/** The first events of a page, as many as fit into a chunk. */
interface Taken {
  readonly texts: readonly string[];
  /** The position after which to continue. */
  readonly end: number;
  readonly more: boolean;
}

// Size of the newest events that are kept as text. A follower that is further behind reads from the store.
const maxCharacters = 4 * 1024 * 1024;
// Proxies close a connection that was idle for a minute or less.
const heartbeatMs = 15_000;
// Minimum time before a client connects again, and before the reader retries after a failure.
const retryMs = 1_000;

/**
 * The clients that follow the changes as a stream. One reader reads new changes from the store once for all of them.
 * Each follower sends these changes as fast as its client reads. A slow client needs no buffer: after the write
 * timeout its connection is closed like any other, and the client resumes.
 */
export class Followers {
  readonly #feed: ChangeFeed;
  readonly #max: number;
  readonly #onFailure: (cause: unknown) => void;
  /** Wakes each follower. */
  readonly #wakes = new Set<() => void>();
  /** Incremented by each wake, so that none is missed between a check and the wait. */
  #woken = 0;
  /** All changes after `#from` up to `#to`. */
  readonly #blocks: Block[] = [];
  #characters = 0;
  #from = 0;
  #to = 0;
  /** Incremented when positions may be invalid: each follower then checks its own position with the store. */
  #generation = 0;
  #stale = false;
  #reading = false;
  #beats = 0;
  #sent = 0;
  #stop: () => void = () => undefined;
  /** Incremented when all followers must connect again. */
  #epoch = 0;
  #draining = false;

  /** `max` is the maximum number of followers; 0 for no limit. */
  constructor(feed: ChangeFeed, max: number, onFailure: (cause: unknown) => void) {
    this.#feed = feed;
    this.#max = max;
    this.#onFailure = onFailure;
  }

  /** The number of followers. */
  get open(): number {
    return this.#wakes.size;
  }

  /** The number of changes sent to followers. */
  get sent(): number {
    return this.#sent;
  }

  /** Ends all streams: their clients connect again, and resume. */
  disconnect(): void {
    this.#epoch += 1;
    this.#wake();
  }

  /** Ends all current and later streams: their clients connect to another process. */
  drain(): void {
    this.#draining = true;
    this.disconnect();
  }

  /** Sends the changes of a first page and all later ones as server-sent events, until the client disconnects. */
  async *follow(query: ChangeQuery, first: ChangePage, request: HttpRequest): AsyncGenerator<string> {
    if (this.#max > 0 && this.open >= this.#max) {
      throw new DomainError('overloaded', 'too many clients follow the changes');
    }
    request.becomeLongLived();
    const { signal, basePath } = request;
    let endWait = (): void => undefined;
    const wake = (): void => endWait();
    this.#wakes.add(wake);
    if (this.open === 1) this.#start(first.next);
    signal.addEventListener('abort', wake);
    const epoch = this.#epoch;
    const isOver = (): boolean => signal.aborted || this.#draining || epoch !== this.#epoch;
    let beats = this.#beats;
    let generation = this.#generation;
    let { after, limit } = query;
    let page: ChangePage | undefined = first;
    try {
      // Randomized, because otherwise all clients of an ended process would connect again at the same moment.
      yield `retry: ${retryMs + Math.floor(Math.random() * retryMs)}\nid: ${after}\n\n`;
      while (!isOver()) {
        // The first page was read before this follower could be woken.
        const woken = page === undefined ? this.#woken : -1;
        const isRecent = page === undefined && generation === this.#generation && after >= this.#from;
        let taken = isRecent ? this.#take(query, after, request) : undefined;
        if (taken === undefined) {
          generation = this.#generation;
          page ??= await this.#feed.read({ ...query, after, limit }, { signal });
          const { texts, last } = fitting(
            page.changes,
            (change) => toText(change, basePath),
            request.chunkBytes,
          );
          taken = { texts, end: last?.position ?? page.next, more: page.more || last !== undefined };
          // Changes that did not fit are read again, to save memory.
          limit = taken.end === page.next ? Math.min(limit * 2, maxChangeLimit) : taken.texts.length;
          page = undefined;
        }
        const { texts, end, more } = taken;
        after = Math.max(after, end);
        if (texts.length > 0) {
          this.#sent += texts.length;
          yield texts.join('');
        } else if (beats !== this.#beats) {
          beats = this.#beats;
          // With this id, a client resumes here even if no change matched its filter.
          yield `: nothing new\nid: ${after}\n\n`;
        } else if (!more && woken === this.#woken) {
          await new Promise<void>((resolve) => {
            endWait = resolve;
          });
        }
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

  #start(position: number): void {
    this.#clear(position);
    const unwatch = this.#feed.watch(() => void this.#read());
    const heartbeat = setInterval(() => {
      this.#beats += 1;
      this.#wake();
    }, heartbeatMs);
    this.#stop = () => {
      unwatch();
      clearInterval(heartbeat);
      this.#clear(position);
    };
    void this.#read();
  }

  #clear(position: number): void {
    this.#blocks.length = 0;
    this.#characters = 0;
    this.#from = position;
    this.#to = position;
    this.#generation += 1;
  }

  #wake(): void {
    this.#woken += 1;
    for (const wake of this.#wakes) wake();
  }

  /** Reads new changes. A call while it reads makes it read once more. */
  async #read(): Promise<void> {
    this.#stale = true;
    if (this.#reading) return;
    this.#reading = true;
    while (this.#stale && this.open > 0) {
      this.#stale = false;
      try {
        await this.#readPage();
      } catch (caught) {
        this.#onFailure(caught);
        await sleep(retryMs);
        this.#stale = true;
      }
    }
    this.#reading = false;
  }

  async #readPage(): Promise<void> {
    const generation = this.#generation;
    try {
      const page = await this.#feed.read({ after: this.#to, limit: maxChangeLimit });
      if (generation === this.#generation) this.#add(page);
      else this.#stale = true;
    } catch (caught) {
      if (DomainError.from(caught).kind !== 'gone') throw caught;
      // The feed has restarted: each follower asks the store whether its own position is still valid.
      this.#clear(await this.#feed.position());
      this.#wake();
    }
  }

  #add({ changes, next, more }: ChangePage): void {
    for (const change of changes) {
      const block = { change, text: toText(change, '') };
      this.#blocks.push(block);
      this.#characters += block.text.length;
    }
    let dropped = 0;
    for (; this.#characters > maxCharacters; dropped += 1) {
      const block = this.#blocks[dropped];
      this.#characters -= block?.text.length ?? 0;
      this.#from = block?.change.position ?? next;
    }
    this.#blocks.splice(0, dropped);
    this.#to = next;
    this.#stale ||= more;
    if (changes.length > 0) this.#wake();
  }

  #take(query: ChangeQuery, after: number, { basePath, chunkBytes }: HttpRequest): Taken {
    const start = this.#blocks.findLastIndex(({ change }) => change.position <= after) + 1;
    const wanted = this.#blocks.slice(start).filter(({ change }) => isWanted(change, query));
    const { texts, last } = fitting(wanted, ({ text }) => withBase(text, basePath), chunkBytes);
    return { texts, end: last?.change.position ?? this.#to, more: last !== undefined };
  }
}

function toText(change: Change, basePath: string): string {
  return `id: ${change.position}\ndata: ${cloudEvent(change, basePath)}\n\n`;
}

/** Adds the prefix of a mount to the `source` of an event. */
function withBase(text: string, basePath: string): string {
  if (basePath === '') return text;
  // The first match is the attribute, because only numbers precede it.
  return text.replace('"source":"', () => `"source":${JSON.stringify(basePath).slice(0, -1)}`);
}
