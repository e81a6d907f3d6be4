import type { IncomingMessage, ServerResponse } from 'node:http';
import { HeldSockets } from './held-sockets.ts';
import { HttpError } from './http-error.ts';

// Where more clients than this are waiting each waits longer, so that refusing them stays a small part of
// the work: with a second for all, 8,000 connections made it a fifth.
const refusalsPerSecond = 2_000;

/** A request as far as the limit sees it. */
export interface Holder {
  readonly raw: IncomingMessage;
  /** Whether it takes a place. */
  admitted: boolean;
}

/** The places for requests under way. One whose body is still on its way takes none: it costs only memory. */
export class InFlightLimit {
  readonly #max: number;
  readonly #held = new HeldSockets();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place. Fails with 503; those refused do not count, or they would keep the others out. */
  acquire(holder: Holder, response: ServerResponse): void {
    // Who has left already would never give it back.
    if (response.closed) return;
    if (this.#taken >= this.#max) {
      // What its client is asked to wait, and then not heard sooner.
      const seconds = 1 + Math.floor(this.#held.size / refusalsPerSecond);
      response.once('close', () => this.#held.hold(holder.raw.socket, seconds * 1_000));
      throw new HttpError(503, 'too many requests are under way', {
        'retry-after': String(seconds),
      });
    }
    this.#taken += 1;
    holder.admitted = true;
  }

  /** Gives the place back, if it has one. */
  release(holder: Holder): void {
    if (!holder.admitted) return;
    holder.admitted = false;
    this.#taken -= 1;
  }

  /** Hears those again that were told to wait: the end has come. */
  close(): void {
    this.#held.close();
  }
}
