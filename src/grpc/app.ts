import type { Socket } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { type ChannelOptions, Server, ServerCredentials } from '@grpc/grpc-js';
import { defaults } from '../config.ts';
import { Access, type AuthMode } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import { fanOut, type Observe } from '../telemetry/events.ts';
import { handleUnknownMethods, reportCalls, type UnaryOptions, unary } from './call.ts';
import { UsersService } from './stubs.ts';
import { userHandlers } from './users.ts';

export interface GrpcOptions extends UnaryOptions {
  readonly repository: Repository;
  readonly access: Access;
}

export interface GrpcLimits {
  /** Most calls at once on a connection. */
  readonly maxConcurrentStreams: number;
  /** Longest message, in bytes. */
  readonly maxMessageBytes: number;
  /** Age at which a connection is asked to close, so that load spreads over new copies, in ms. */
  readonly maxConnectionAgeMs: number;
  /** Grace period for running calls after the maximum connection age, in ms. */
  readonly maxConnectionAgeGraceMs: number;
  /** How often a peer is pinged, in ms. */
  readonly keepaliveTimeMs: number;
  /** How long a peer may take to answer the ping, in ms. */
  readonly keepaliveTimeoutMs: number;
}

/** Serves gRPC on connections that its caller has accepted. */
export type GrpcApp = Awaited<ReturnType<typeof createGrpcApp>>;

export interface UsersServiceOptions {
  readonly repository: Repository;
  /** The keys that the metadata `x-api-key` may hold. Default: none. */
  readonly apiKeys?: readonly string[];
  /** Which calls need a key. Default: `none`. */
  readonly auth?: AuthMode;
  /** Calls served at once; more are RESOURCE_EXHAUSTED. Default: 10,000. */
  readonly maxInFlight?: number;
  /** Receives every event. Default: none. */
  readonly observe?: Observe;
}

/**
 * Adds `Users` to an existing gRPC server, beside its other services. Health, reflection, limits and
 * the server's life stay with its owner.
 */
export function addUsersService(server: Server, options: UsersServiceOptions): void {
  const { repository, apiKeys = [], auth = 'none', maxInFlight = defaults['max-in-flight'] } = options;
  addUsers(server, repository, new Access(auth, apiKeys), {
    observe: fanOut(options.observe),
    gate: { inFlight: 0, maxInFlight },
    // The interceptors of a server are fixed when it is created.
    reports: true,
  });
}

function addUsers(server: Server, repository: Repository, access: Access, options: UnaryOptions): void {
  const users = userHandlers(repository, access);
  server.addService(UsersService, { getUser: unary(users.getUser, options) });
}

/** Users, health and reflection; the latter two are not loaded for a host that adds only `Users`. @internal */
export async function createGrpcApp(options: GrpcOptions, limits: GrpcLimits, tls?: SecureContextOptions) {
  const { Health } = await import('./health.ts');
  const { addReflection } = await import('./reflection.ts');
  const { repository, access, observe } = options;
  const server = new Server({ ...channelOptions(limits), interceptors: [reportCalls(observe)] });
  handleUnknownMethods(server);
  addUsers(server, repository, access, options);
  const health = new Health(server);
  addReflection(server);
  let connections = server.createConnectionInjector(credentials(tls));
  return {
    /** Serves a connection from its first byte on. */
    accept: (socket: Socket) => connections.injectConnection(socket),
    setServing: (serving: boolean) => health.setServing(serving),
    /** Sets the certificate for new connections. */
    setTls(pair: SecureContextOptions) {
      connections = server.createConnectionInjector(credentials(pair));
    },
    /** Asks every connection to end when its calls have ended. */
    drain() {
      health.endWatches();
      server.tryShutdown(() => undefined);
    },
  };
}

function credentials(tls: SecureContextOptions | undefined): ServerCredentials {
  return tls === undefined ? ServerCredentials.createInsecure() : new TlsCredentials(tls);
}

// `createSsl` takes neither versions nor ciphers.
class TlsCredentials extends ServerCredentials {
  constructor({ cert, key, ...settings }: SecureContextOptions) {
    super(settings, { cert, key });
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function channelOptions(limits: GrpcLimits): ChannelOptions {
  return {
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    'grpc.max_receive_message_length': limits.maxMessageBytes,
    'grpc.max_send_message_length': limits.maxMessageBytes,
    'grpc.max_connection_age_ms': limits.maxConnectionAgeMs,
    'grpc.max_connection_age_grace_ms': limits.maxConnectionAgeGraceMs,
    'grpc.keepalive_time_ms': limits.keepaliveTimeMs,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    // Its records of calls and connections grow without bound on a busy server.
    'grpc.enable_channelz': 0,
  };
}
