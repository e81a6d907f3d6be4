import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { type ConnectionInjector, type Server, ServerCredentials } from '@grpc/grpc-js';

// A group closes up to a twentieth of the maximum age before the random ages of its connections.
const groupsPerAge = 20;
// These are within this share below the maximum, so that clients do not all reconnect at once.
const spread = 0.1;
// As the HTTP API by default. Node would wait for two minutes.
const handshakeTimeoutMs = 10_000;

/** Connections that close at about the same time, with the same certificate. */
interface Group {
  readonly number: number;
  readonly tls: SecureContextOptions | undefined;
  readonly injector: ConnectionInjector;
  readonly timer: NodeJS.Timeout;
}

/**
 * Accepts connections in groups, and asks the clients of a group to close them before the maximum age. grpc-js would
 * start a timer of a random duration for each connection. Node.js keeps a list for each duration until it ends, so new
 * connections would fill the memory.
 */
export function agingConnections(server: Server, maxAgeMs: number, graceMs: number) {
  const groupMs = Math.ceil(maxAgeMs / groupsPerAge);
  const groups = new Set<Group>();

  const open = (number: number, tls: SecureContextOptions | undefined): Group => {
    const credentials = tls === undefined ? ServerCredentials.createInsecure() : new TlsCredentials(tls);
    const injector = server.createConnectionInjector(credentials);
    const close = (): void => {
      groups.delete(group);
      injector.drain(graceMs);
      injector.destroy();
    };
    const timer = setTimeout(close, number * groupMs - performance.now()).unref();
    const group = { number, tls, injector, timer };
    groups.add(group);
    return group;
  };
  return {
    accept(socket: Duplex, tls: SecureContextOptions | undefined): void {
      const ageMs = maxAgeMs * (1 - spread * Math.random());
      const number = Math.floor((performance.now() + ageMs) / groupMs);
      const known = [...groups].find((group) => group.number === number && group.tls === tls);
      // HTTP/2 accepts any Duplex, but the type of grpc-js does not.
      (known ?? open(number, tls)).injector.injectConnection(socket as Socket);
    },
    /** Asks every client to close its connection. May be called again. */
    drain(): void {
      for (const { timer, injector } of groups) {
        clearTimeout(timer);
        injector.destroy();
      }
    },
  };
}

// `createSsl` does not accept TLS versions or ciphers.
class TlsCredentials extends ServerCredentials {
  constructor({ cert, key, ...settings }: SecureContextOptions) {
    super({ ...settings, handshakeTimeout: handshakeTimeoutMs }, { cert, key });
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}
