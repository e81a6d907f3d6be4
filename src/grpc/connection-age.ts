import type { Socket } from 'node:net';
import type { ConnectionInjector, Server, ServerCredentials } from '@grpc/grpc-js';

interface AgeLimits {
  readonly maxConnectionAgeMs: number;
  /** Grace period for running calls after that, in ms. */
  readonly maxConnectionAgeGraceMs: number;
}

interface Group {
  readonly injector: ConnectionInjector;
  timer: NodeJS.Timeout;
}

const groupsPerAge = 20;
// Ages are random within this share below the maximum, so that clients do not all reconnect at once.
const spread = 0.1;

/**
 * Accepts connections in groups, and asks the clients of a group to close them before the maximum age. grpc-js has this
 * limit too, but starts a timer of a random duration for each connection. Node.js keeps a list for each duration
 * until its end, so a client with a new connection for each call would fill the memory.
 */
export class AgingConnections {
  readonly #server: Server;
  readonly #groupMs: number;
  readonly #maxAgeMs: number;
  readonly #graceMs: number;
  readonly #groups = new Map<string, Group>();
  #credentials: ServerCredentials;
  #certificates = 0;

  constructor(server: Server, credentials: ServerCredentials, limits: AgeLimits) {
    this.#server = server;
    this.#credentials = credentials;
    this.#maxAgeMs = limits.maxConnectionAgeMs;
    this.#graceMs = limits.maxConnectionAgeGraceMs;
    this.#groupMs = Math.ceil(this.#maxAgeMs / groupsPerAge);
  }

  accept(socket: Socket): void {
    const ageMs = this.#maxAgeMs * (1 - spread * Math.random());
    const number = Math.floor((performance.now() + ageMs) / this.#groupMs);
    const key = `${this.#certificates} ${number}`;
    const group = this.#groups.get(key) ?? this.#open(key, number * this.#groupMs);
    group.injector.injectConnection(socket);
  }

  /** Sets the credentials for new connections. */
  setCredentials(credentials: ServerCredentials): void {
    this.#credentials = credentials;
    this.#certificates += 1;
  }

  /** Stops the timers; the server closes the connections. */
  close(): void {
    for (const { timer } of this.#groups.values()) clearTimeout(timer);
  }

  #open(key: string, closesAt: number): Group {
    const injector = this.#server.createConnectionInjector(this.#credentials);
    const timer = setTimeout(() => {
      injector.drain(this.#graceMs);
      group.timer = setTimeout(() => {
        this.#groups.delete(key);
        injector.destroy();
      }, this.#graceMs).unref();
    }, closesAt - performance.now()).unref();
    const group = { injector, timer };
    this.#groups.set(key, group);
    return group;
  }
}
