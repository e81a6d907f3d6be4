import { getHeapStatistics } from 'node:v8';
import type { Observe } from '../telemetry/events.ts';

export const heapLimitBytes = getHeapStatistics().heap_size_limit;
// Of 128 KiB, a connection with long headers and an unread reply takes 88. The rest is for the service and garbage.
export const fittingConnections = Math.floor(heapLimitBytes / (128 * 1024));

/** The first 16 KiB of each owner do not count, so that large uploads cannot block small requests. */
export const uncountedBytes = 16 * 1024;
const longChunkBytes = 64 * 1024;
const budgetBytes = Math.min(64 * 1024 * 1024, heapLimitBytes / 16);

/** Empties a chunk and frees its memory, unless other data shares it. V8 would free it only after marking the heap. */
export function free({ buffer, length }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0);
}

/**
 * The memory budget for data that waits for clients: bodies until their request ends, and replies until their client
 * has received them. Beyond it, the requests that have used memory for the longest time are cancelled. If new requests
 * waited instead, clients that read slowly could block all others.
 */
export class MemoryBudget {
  readonly #maxBytes: number;
  /** In the order in which the owners began to use memory. */
  readonly #holdings = new Map<object, { bytes: number; cancel: (() => void) | undefined }>();
  readonly #observe: Observe;
  #usedBytes = 0;

  /** The budget holds the longest body at least twice, because a body beyond the budget would cancel itself. */
  constructor(observe: Observe, maxBodyBytes: number, maxBytes = Math.max(budgetBytes, 2 * maxBodyBytes)) {
    this.#observe = observe;
    this.#maxBytes = maxBytes;
  }

  get isShort(): boolean {
    return this.#usedBytes > this.#maxBytes / 2;
  }

  /** The preferred length of the chunks of a reply. While memory is short, a chunk is short enough not to count. */
  get chunkBytes(): number {
    return this.isShort ? uncountedBytes : longChunkBytes;
  }

  /** Reports that a request or a connection is cancelled for lack of memory. */
  reportCancel(): void {
    this.#observe({ type: 'refused', face: 'http', status: 503, reason: 'too much waits for slow clients' });
  }

  /** Sets how many bytes an owner uses. Without `cancel`, they count, but the owner is never cancelled. */
  hold(owner: object, usedBytes: number, cancel?: () => void): void {
    // On serverless hosts, `writableLength` of a response is NaN, because its socket is a plain object.
    const bytes = Math.max(0, usedBytes - uncountedBytes) || 0;
    this.#usedBytes += bytes - (this.#holdings.get(owner)?.bytes ?? 0);
    if (bytes === 0) this.#holdings.delete(owner);
    else this.#holdings.set(owner, { bytes, cancel });
    for (const [oldest, held] of this.#holdings) {
      if (this.#usedBytes <= this.#maxBytes) return;
      if (held.cancel === undefined) continue;
      this.#holdings.delete(oldest);
      this.#usedBytes -= held.bytes;
      this.reportCancel();
      held.cancel();
    }
  }
}
