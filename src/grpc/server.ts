import {
  type ChannelOptions,
  Server,
  ServerCredentials,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { Access } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import type { Observe } from '../observer.ts';
import { Health } from './health.ts';
import { addReflection } from './reflection.ts';
import { UsersService } from './stubs.ts';
import { type CallGate, unary } from './unary.ts';
import { userHandlers } from './users.ts';

export interface GrpcLimits {
  /** Calls at once on one connection. */
  readonly maxConcurrentStreams: number;
  /** Longest message, in bytes. */
  readonly maxMessageBytes: number;
  /** A connection older than this is asked to end, so that load spreads over new copies, in ms. */
  readonly maxConnectionAgeMs: number;
  /** What its calls have left from then on, in ms. */
  readonly maxConnectionAgeGraceMs: number;
  /** How often a quiet peer is pinged, in ms. */
  readonly keepaliveTimeMs: number;
  /** How long it may take to answer the ping, in ms. */
  readonly keepaliveTimeoutMs: number;
}

export const defaultGrpcLimits: GrpcLimits = Object.freeze({
  maxConcurrentStreams: 250,
  maxMessageBytes: 64 * 1024,
  maxConnectionAgeMs: 30 * 60_000,
  maxConnectionAgeGraceMs: 30_000,
  keepaliveTimeMs: 60_000,
  keepaliveTimeoutMs: 20_000,
});

export interface UsersServiceOptions {
  readonly repository: Repository;
  readonly access: Access;
  readonly gate: CallGate;
  readonly observe: Observe;
}

/** Adds `Users` to a gRPC server, ours or somebody else's. */
export function addUsersService(server: Server, options: UsersServiceOptions): void {
  const { gate, observe } = options;
  const users = userHandlers(options.repository, options.access);
  const implementation: UntypedServiceImplementation = {
    getUser: unary('/Users/GetUser', users.getUser, gate, observe),
  };
  server.addService(UsersService, implementation);
}

/** The gRPC face: Users, health and reflection on one port. */
export class GrpcServer {
  readonly #server: Server;
  readonly #health = new Health();
  #bound = false;

  constructor(options: UsersServiceOptions, limits: GrpcLimits) {
    this.#server = new Server(channelOptions(limits));
    addUsersService(this.#server, options);
    this.#health.addToServer(this.#server);
    addReflection(this.#server);
  }

  /** Opens the port; resolves to the one in use. */
  async listen(
    host: string,
    port: number,
    tls?: { cert: string | Buffer; key: string | Buffer },
  ): Promise<number> {
    const credentials =
      tls === undefined
        ? ServerCredentials.createInsecure()
        : ServerCredentials.createSsl(null, [
            { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) },
          ]);
    const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.bindAsync(address, credentials, (error, bound) => (error ? reject(error) : resolve(bound)));
    const bound = await promise;
    this.#bound = true;
    return bound;
  }

  setServing(serving: boolean): void {
    this.#health.setServing(serving);
  }

  /** Takes no more calls and resolves when those under way have ended; `signal` cuts them off. */
  async close(signal: AbortSignal): Promise<void> {
    if (!this.#bound) return;
    this.#health.endWatches();
    const { promise, resolve } = Promise.withResolvers<void>();
    const force = () => this.#server.forceShutdown();
    // The callback comes after a forced end too, so this settles either way.
    this.#server.tryShutdown(() => resolve());
    if (signal.aborted) force();
    else signal.addEventListener('abort', force, { once: true });
    await promise;
    signal.removeEventListener('abort', force);
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
    // Its books of every call and connection only ever grow on a busy server.
    'grpc.enable_channelz': 0,
  };
}
