import {
  type CallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  credentials,
  Metadata,
  type MetadataValue,
  type StatusObject,
} from '@grpc/grpc-js';
import { UsersClient } from '../../generated/users_grpc_pb.js';
import { GetUserRequest } from '../../src/grpc/users.ts';

export interface Outcome {
  /** The result of a call, with all parts that the server sent. */
  readonly user: { readonly id: number; readonly name: string } | undefined;
  readonly code: number;
  readonly details: string;
  readonly trailer: Readonly<Record<string, MetadataValue>>;
}

export interface GetUserOptions extends CallOptions {
  readonly metadata?: Readonly<Record<string, string | readonly string[]>>;
}

/** A client of the generated stubs, closed after the test or suite. */
export function usersClient(
  t: { after(close: () => void): void },
  address: string,
  options: ChannelOptions = {},
  security: ChannelCredentials = credentials.createInsecure(),
): UsersClient {
  // A separate pool, so that tests do not share connections.
  const client = new UsersClient(address, security, { 'grpc.use_local_subchannel_pool': 1, ...options });
  t.after(() => client.close());
  return client;
}

/** Calls GetUser and resolves to its result, also after a failure. */
export function getUser(
  client: UsersClient,
  id: number | undefined,
  options: GetUserOptions = {},
): Promise<Outcome> {
  const { metadata = {}, ...callOptions } = options;
  const sent = new Metadata();
  for (const [name, values] of Object.entries(metadata)) {
    for (const value of [values].flat()) sent.add(name, value);
  }
  const request = new GetUserRequest();
  if (id !== undefined) request.setId(id);
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let user: Outcome['user'];
  const call = client.getUser(request, sent, callOptions, (_error, response) => {
    user = response?.toObject();
  });
  call.on('status', ({ code, details, metadata: trailer }: StatusObject) => {
    // After a response, the callback runs before this event. After a failure, the order does not matter.
    setImmediate(() => resolve({ user, code, details, trailer: trailer.getMap() }));
  });
  return promise;
}
