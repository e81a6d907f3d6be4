import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers';
import type { Observe } from '../telemetry/events.ts';
import { connectionOf } from './connection.ts';
import { refuse, reportRefusal, tooManyConnections } from './refusals.ts';
import { scheduler } from './scheduler.ts';

// Each stays open until its client has had time to read the error response. Further ones get none.
const maxRejectingAtOnce = 100;
// A connection that has waited this long for its client may be closed for a new one. Busy clients pause for less.
const minIdleMs = 100;
// At most this many are checked for a new connection, which replaces the one of them that has waited longest.
const maxChecks = 100;
// A handshake of TLS 1.3 makes 5 keys, and a change of them that the client requests 2. Clients change them rarely.
const maxKeys = 1_000;
const warnEveryMs = 60_000;

/**
 * Limits the number of open connections of a server. A connection beyond the limit replaces an idle one if a short
 * search finds one, and is rejected otherwise. So clients that send nothing keep no others out.
 */
export class Connections {
  readonly #isSecure: boolean;
  readonly #observe: Observe;
  /** The accepted connections that are not read yet. None is idle, so no search needs them. */
  readonly #unread = new Set<Socket>();
  /**
   * The connections that are read. With TLS, each is replaced by its TLS socket when its handshake ends. A search for
   * an idle one begins at the first, and moves those that it has checked to the end.
   */
  readonly #open = new Set<Socket>();
  readonly #rejecting = new Set<Socket>();
  /** The listener of `close` for all connections. One function for each would take an eighth of its idle memory. */
  readonly #forget: (this: Socket) => void;
  #warnedAt = Number.NEGATIVE_INFINITY;

  /** `max` is 0 for no limit. */
  constructor(server: Server, max: number, observe: Observe) {
    this.#isSecure = 'setSecureContext' in server;
    this.#observe = observe;
    const sets = [this.#unread, this.#open, this.#rejecting];
    this.#forget = function () {
      for (const sockets of sets) sockets.delete(this);
    };
    // Node's `maxConnections` cannot send a response, and full workers would pass a connection around forever.
    const nodeListeners = server.listeners('connection');
    server.removeAllListeners('connection');
    // Without TLS, a connection waits for its turn before it is read. With TLS, the handshake costs most in any case.
    const take = (socket: Socket): void => {
      if (socket.destroyed) return;
      this.#unread.delete(socket);
      this.#open.add(socket);
      connectionOf(socket).idleSince = performance.now();
      for (const listener of nodeListeners) listener.call(server, socket);
      if (!this.#isSecure) socket.resume();
    };
    // The type of `http.Server` lacks this option.
    Object.assign(server, { pauseOnConnect: !this.#isSecure });
    const accept = (socket: Socket): void => {
      if (this.#isSecure) take(socket);
      else scheduler.addConnection(() => take(socket));
    };
    // After the event loop has read the sockets: a connection whose request has arrived is no longer idle.
    const replaceIdle = (socket: Socket): void => {
      if (socket.destroyed) return;
      if (this.count <= max || this.#makeRoom()) accept(socket);
      else {
        this.#unread.delete(socket);
        this.#reject(socket);
      }
    };
    server.on('connection', (socket: Socket) => {
      const isFull = max > 0 && this.count >= max;
      this.#unread.add(socket.on('close', this.#forget));
      if (!isFull) return accept(socket);
      // Without this listener, a connection reset would end the process.
      socket.on('error', () => undefined);
      setImmediate(() => replaceIdle(socket));
    });
    // Emitted for each key of TLS. Otherwise a flood of changes (RFC 8446, 4.6.3) would stall the event loop.
    server.on('keylog', (_line: Buffer, socket: Socket) => {
      const connection = connectionOf(socket);
      connection.tlsKeys += 1;
      if (connection.tlsKeys > maxKeys) socket.destroy();
    });
    server.on('secureConnection', (socket: Socket) => {
      this.#open.delete(Reflect.get(socket, '_parent'));
      this.#open.add(socket.on('close', this.#forget));
      // Its keys have created the state of the connection, perhaps long before the handshake ended.
      connectionOf(socket).idleSince = performance.now();
    });
  }

  /** The number of open connections, without those that are being rejected. */
  get count(): number {
    return this.#unread.size + this.#open.size;
  }

  /** All connections, including those in their TLS handshake, which `closeAllConnections` does not close. */
  get sockets(): readonly Socket[] {
    return [...this.#unread, ...this.#open, ...this.#rejecting];
  }

  /** Closes all connections that have been idle since this time or longer, by `performance.now()`. */
  closeIdle(since: number): void {
    for (const socket of this.#open) if (connectionOf(socket).waitingSince <= since) socket.destroy();
  }

  /** Closes an idle connection. Returns whether it found one. */
  #makeRoom(): boolean {
    const now = performance.now();
    let longest: Socket | undefined;
    let since = now - minIdleMs;
    let checks = 0;
    // Do not keep an iterator for the next search: it would keep all connections in memory that close in the meantime.
    for (const socket of this.#open) {
      const { waitingSince } = connectionOf(socket);
      if (waitingSince <= since) [longest, since] = [socket, waitingSince];
      this.#open.delete(socket);
      this.#open.add(socket);
      checks += 1;
      if (checks === maxChecks) break;
    }
    if (longest === undefined) return false;
    if (now - this.#warnedAt >= warnEveryMs) {
      this.#warnedAt = now;
      const message = 'too many connections are open: idle ones are closed for new ones';
      this.#observe({ type: 'warning', message });
    }
    longest.destroy();
    return true;
  }

  #reject(socket: Socket): void {
    // With TLS, a response would need a handshake, which costs most.
    if (this.#isSecure || this.#rejecting.size >= maxRejectingAtOnce) {
      reportRefusal(tooManyConnections, this.#observe);
      socket.destroy();
    } else {
      this.#rejecting.add(socket);
      refuse(socket, tooManyConnections, this.#observe);
    }
  }
}
