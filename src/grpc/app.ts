import { Server } from '@grpc/grpc-js';
import { checkRange } from '../check-range.ts';
import { options as optionTable, readOptions } from '../config.ts';
import { Access, type AuthMode } from '../domain/access.ts';
import { checkRepository, type Repository } from '../domain/repository.ts';
import { fanOut, type Observe } from '../telemetry/events.ts';
import { handleUnknownMethods, reportCalls, type UnaryOptions } from './call.ts';
import { agingConnections } from './connections.ts';
import type { OpenStreams } from './standard-services.ts';
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

/** Serves gRPC on connections that the caller has accepted. @internal */
export type GrpcApp = Awaited<ReturnType<typeof createGrpcApp>>;

/** A `Server` of any version of grpc-js: its private members make the types of two versions incompatible. */
interface AnyServer {
  addService(service: never, implementation: never): void;
}

export interface UsersServiceOptions {
  readonly repository: Repository;
  /** The keys that the metadata `x-api-key` may hold. Default: none. */
  readonly apiKeys?: readonly string[];
  /** Which calls need a key. Default: `none`. */
  readonly auth?: AuthMode;
  /** Maximum number of concurrent calls; more fail with RESOURCE_EXHAUSTED. Default: 10,000. */
  readonly maxInFlight?: number;
  /** Receives every event. Default: none. */
  readonly observe?: Observe;
}

const names: readonly string[] = ['repository', 'apiKeys', 'auth', 'maxInFlight', 'observe'];

/**
 * Adds `Users` to an existing gRPC server, beside its other services. The owner of the server remains responsible
 * for health, reflection, limits and shutdown. Throws when an option is wrong.
 */
export function addUsersService(server: AnyServer, options: UsersServiceOptions): void {
  checkRepository(options?.repository);
  for (const name in options) if (!names.includes(name)) throw new TypeError(`${name} is not an option`);
  const { default: preset, range } = optionTable['max-in-flight'];
  const { repository, auth, apiKeys, maxInFlight = preset, observe } = options;
  checkRange('maxInFlight', maxInFlight, range);
  const checked = readOptions({ auth, apiKeys });
  const handlers = userHandlers(repository, {
    access: new Access(checked.auth, checked.apiKeys),
    observe: fanOut(observe),
    gate: { inFlight: 0, maxInFlight },
    // The interceptors of a server are fixed when it is created.
    reports: true,
  });
  (server as Server).addService(UsersService, handlers);
}

/** Users, health and reflection. `addUsersService` does not load the latter two. @internal */
export async function createGrpcApp(options: GrpcOptions) {
  const { addHealth, addReflection } = await import('./standard-services.ts');
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
