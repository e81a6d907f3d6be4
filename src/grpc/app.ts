import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { type ConnectionInjector, Server, ServerCredentials } from '@grpc/grpc-js';
import type { Repository } from '../domain/repository.ts';
import { handleUnknownMethods, reportCalls, type UnaryOptions } from './call.ts';
import { addHealth, addReflection, type OpenStreams } from './standard-services.ts';
import { UsersService, userHandlers } from './users.ts';

export interface GrpcOptions extends UnaryOptions {
  readonly repository: Repository;
  readonly limits: GrpcLimits;
}

/** The limits of the gRPC API. */
export interface GrpcLimits {
  /** Maximum number of concurrent calls on a connection. Default: 250. */
  readonly maxConcurrentStreams: number;
  /** Maximum length of a message, in bytes. Default: 65,536. */
  readonly maxMessageBytes: number;
  /** Age at which a connection is asked to close, in ms. Default: 1,800,000. */
  readonly maxConnectionAgeMs: number;
  /** How long the calls of such a connection may still take, in ms. Default: 30,000. */
  readonly maxConnectionAgeGraceMs: number;
  /** How often a connection is pinged, in ms. Default: 60,000. */
  readonly keepaliveTimeMs: number;
  /** How long a client may take to answer a ping, in ms. Default: 20,000. */
  readonly keepaliveTimeoutMs: number;
}

/** Serves gRPC on connections that the caller has accepted. */
export type GrpcApp = ReturnType<typeof createGrpcApp>;

// Ages are rounded down to a multiple of a twentieth of the maximum, so that connections share few groups.
const groupsPerAge = 20;
// A connection gets a random age up to this share below the maximum, so that clients do not all reconnect at once.
const ageJitter = 0.1;
// As the HTTP API by default. Node would wait for two minutes.
const handshakeTimeoutMs = 10_000;

/** Users, health and reflection. */
export function createGrpcApp(options: GrpcOptions) {
  const { limits } = options;
  const server = new Server({
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    'grpc.max_receive_message_length': limits.maxMessageBytes,
    'grpc.max_send_message_length': limits.maxMessageBytes,
    'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    // The records of channelz for calls and connections grow without bound on a busy server.
    'grpc.enable_channelz': 0,
    interceptors: [reportCalls(options.observe)],
  });
  handleUnknownMethods(server);
  server.addService(UsersService, userHandlers(options.repository, options));
  const streams: OpenStreams = new Set();
  const setServing = addHealth(server, streams);
  addReflection(server, streams);
  const connections = agingConnections(server, limits.maxConnectionAgeMs, limits.maxConnectionAgeGraceMs);
  return {
    /** Serves a connection, from which nothing has been read. */
    accept: connections.accept,
    setServing,
    /** Asks all clients to close their connections after their calls; call it again for later TLS handshakes. */
    drain() {
      for (const end of streams) end();
      connections.drain();
    },
  };
}

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
      const ageMs = maxAgeMs * (1 - ageJitter * Math.random());
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
