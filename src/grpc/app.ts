import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContextOptions } from 'node:tls';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { Repository } from '../domain/repository.ts';
import { reportCalls, type UnaryOptions } from './call.ts';
import { PacedSocket, type Pacer } from './paced-socket.ts';
import { addHealth, addReflection, type OpenStreams } from './standard-services.ts';
import { limitStreams } from './stream-limits.ts';
import { UsersService, userHandlers } from './users.ts';

export interface GrpcOptions extends UnaryOptions {
  readonly repository: Repository;
  readonly limits: GrpcLimits;
  readonly pacer: Pacer;
  /** Returns the settings of new connections, the same object until they change. Default: no TLS. */
  readonly tls?: () => SecureContextOptions | undefined;
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

// grpc-js changes the age of each connection by up to a tenth at random, so that not all clients reconnect at once.
const ageJitter = 0.1;
// As the HTTP API by default. Node would wait for two minutes.
const handshakeTimeoutMs = 10_000;

/** Users, health and reflection. */
export function createGrpcApp(options: GrpcOptions) {
  const { limits, observe, pacer } = options;
  const server = new Server({
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    'grpc.max_receive_message_length': limits.maxMessageBytes,
    'grpc.max_send_message_length': limits.maxMessageBytes,
    'grpc.max_connection_age_ms': limits.maxConnectionAgeMs / (1 + ageJitter),
    'grpc.max_connection_age_grace_ms': limits.maxConnectionAgeGraceMs,
    'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    // The records of channelz for calls and connections grow without bound on a busy server.
    'grpc.enable_channelz': 0,
    interceptors: [reportCalls(observe)],
  });
  server.addService(UsersService, userHandlers(options.repository, options));
  const endless: OpenStreams = new Set();
  const setServing = addHealth(server, endless);
  addReflection(server, endless);
  let tls = options.tls?.();
  const credentials = new Credentials(tls);
  /** The connection that HTTP/2 is reading. */
  let reading: Socket | undefined;
  const injector = server.createConnectionInjector(credentials);
  return {
    /** Serves a connection, from which nothing has been read. */
    accept(socket: Socket) {
      const latest = options.tls?.();
      if (latest !== undefined && latest !== tls) credentials.updateSecureContextOptions(latest);
      tls = latest;
      const paced = new PacedSocket(socket, pacer);
      // HTTP/2 opens streams in the listener that the injector adds. Listeners run in the order in which they were added.
      paced.on('data', () => {
        reading = socket;
      });
      // HTTP/2 accepts any Duplex, but the type of grpc-js does not.
      injector.injectConnection(paced as Duplex as Socket);
      paced.on('data', () => {
        reading = undefined;
      });
    },
    streams: limitStreams(() => reading, observe, limits.maxMessageBytes),
    setServing,
    /** Asks all clients to close their connections after their calls; call it again for later TLS handshakes. */
    drain() {
      for (const end of endless) end();
      injector.destroy();
    },
  };
}

// `createSsl` does not accept TLS versions, ciphers or a new certificate.
class Credentials extends ServerCredentials {
  constructor(tls: SecureContextOptions | undefined) {
    super(tls === undefined ? null : { handshakeTimeout: handshakeTimeoutMs }, tls);
  }

  /** Sets the certificate of new connections. */
  override updateSecureContextOptions(tls: SecureContextOptions): void {
    super.updateSecureContextOptions(tls);
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}
