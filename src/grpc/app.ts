import type { Socket } from 'node:net';
import { type ChannelOptions, Server, ServerCredentials } from '@grpc/grpc-js';
import type { Access } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import type { Observe } from '../telemetry/events.ts';
import { type CallGate, unary } from './call.ts';
import { reportCallEnds, reportUnknownMethods } from './call-events.ts';
import { Health } from './health.ts';
import type { GrpcLimits } from './limits.ts';
import { addReflection } from './reflection.ts';
import { UsersService } from './stubs.ts';
import { userHandlers } from './users.ts';

export interface UsersServiceOptions {
  readonly repository: Repository;
  readonly access: Access;
  readonly gate: CallGate;
  readonly observe: Observe;
}

/** Certificate chain and private key, in PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** What speaks gRPC on connections that somebody else has accepted. */
export interface Engine {
  /** Serves a connection from its first byte on. */
  accept(socket: Socket): void;
  setServing(serving: boolean): void;
  /** The certificate of connections from now on. */
  setTls(tls: TlsOptions): void;
  /** Asks every connection to end when its calls have. */
  drain(): void;
}

/** Adds `Users` to a gRPC server, ours or somebody else's. */
export function addUsersService(server: Server, options: UsersServiceOptions): void {
  const { gate, observe } = options;
  const users = userHandlers(options.repository, options.access);
  server.addService(UsersService, {
    getUser: unary(UsersService.getUser.path, users.getUser, gate, observe),
  });
}

/** Users, health and reflection. */
export function createEngine(options: UsersServiceOptions, limits: GrpcLimits, tls?: TlsOptions): Engine {
  const { observe } = options;
  const server = new Server({ ...channelOptions(limits), interceptors: [reportCallEnds(observe)] });
  reportUnknownMethods(server, observe);
  const health = new Health();
  addUsersService(server, options);
  health.addToServer(server);
  addReflection(server);
  let connections = server.createConnectionInjector(credentials(tls));
  return {
    accept: (socket) => connections.injectConnection(socket),
    setServing: (serving) => health.setServing(serving),
    setTls(pair) {
      connections = server.createConnectionInjector(credentials(pair));
    },
    drain() {
      // A watch never ends by itself.
      health.endWatches();
      server.tryShutdown(() => undefined);
    },
  };
}

function credentials(tls: TlsOptions | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const pair = { cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) };
  return ServerCredentials.createSsl(null, [pair]);
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
