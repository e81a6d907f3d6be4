import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  Client,
  credentials,
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { GetUserRequest, type UserMessage } from '../../src/grpc/users.ts';
import { addUsersService, DomainError, type ServiceEvent } from '../../src/index.ts';
import type { UsersServiceOptions } from '../../src/service/users-service.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { until } from '../kit/until.ts';

// A gRPC service of the host, with raw bytes as messages.
const echoMethod = {
  path: '/host.Echo/Say',
  requestStream: false,
  responseStream: false,
  requestSerialize: (bytes: Buffer) => bytes,
  requestDeserialize: (bytes: Buffer) => bytes,
  responseSerialize: (bytes: Buffer) => bytes,
  responseDeserialize: (bytes: Buffer) => bytes,
} as const;
const bytes = (value: Buffer): Buffer => value;

describe('addUsersService rejects', () => {
  const repository = createMemoryStore();
  const wrong: readonly [what: string, given: object, message: RegExp][] = [
    ['a missing store', {}, /^repository must be a store/],
    ['a misspelled option', { repository, auht: 'all' }, /^auht is not an option$/],
    ['an option of a service', { repository, grpcPort: 0 }, /^grpcPort is not an option$/],
    ['an observer that is not a function', { repository, observe: console }, /^observe must be a function/],
    ['an observer that is null', { repository, observe: null }, /^observe must be a function/],
    ['a limit that is not a number', { repository, maxInFlight: Number.NaN }, /^maxInFlight .* not NaN$/],
    ['a negative limit', { repository, maxInFlight: -1 }, /^maxInFlight .* not -1$/],
    ['an unknown mode', { repository, auth: 'some' }, /^auth must be one of none, writes, all/],
    ['a key that is no text', { repository, apiKeys: [1] }, /^apiKeys must be a list of keys/],
  ];
  for (const [what, given, message] of wrong) {
    it(what, () => {
      assert.throws(() => addUsersService(new Server(), given as UsersServiceOptions), { message });
    });
  }
});

describe('addUsersService on a gRPC server with another service', () => {
  it('serves both, and reports events to the host', async (t) => {
    const repository = createMemoryStore();
    await repository.users.create({ name: 'Ada' });
    const events: ServiceEvent[] = [];
    const server = new Server();
    server.addService(
      { say: echoMethod },
      {
        say: (call: { request: Buffer }, done: (error: null, reply: Buffer) => void) =>
          done(null, call.request),
      },
    );
    addUsersService(server, { repository, observe: (event) => events.push(event) });
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      );
    });
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
    t.after(() => {
      client.close();
      server.forceShutdown();
    });
    const call = (path: string, request: Buffer) =>
      new Promise<Buffer>((resolve, reject) => {
        client.makeUnaryRequest(path, bytes, bytes, request, (error, reply) =>
          error ? reject(error) : resolve(reply ?? Buffer.alloc(0)),
        );
      });
    assert.equal(String(await call('/host.Echo/Say', Buffer.from('hello'))), 'hello');
    // The bytes of GetUserRequest {id: 1} and User {id: 1, name: "Ada"}.
    const answer = await call('/Users/GetUser', Buffer.from([8, 1]));
    assert.deepEqual(answer, Buffer.from([8, 1, 18, 3, 65, 100, 97]));
    let id: unknown;
    await assert.rejects(call('/Users/GetUser', Buffer.from([8, 2])), ({ code, metadata }: ServiceError) => {
      [id] = metadata.get('x-request-id');
      return code === status.NOT_FOUND;
    });
    // The message ends within a character, which grpc-js cannot encode.
    repository.users.get = () => Promise.reject(new DomainError('conflict', '\u{1f600}'.slice(0, 1)));
    await assert.rejects(call('/Users/GetUser', Buffer.from([8, 1])), { code: status.ABORTED });
    // The store completes a read although its client has cancelled the call.
    repository.users.get = async (id, options) => {
      cancelled.cancel();
      while (options?.isAborted !== true) await nextTurn();
      return { id, name: 'Ada', version: 1 };
    };
    const request = Buffer.from([8, 1]);
    const cancelled = client.makeUnaryRequest('/Users/GetUser', bytes, bytes, request, () => undefined);
    await until(() => events.length > 3, 'the event of the cancelled call');
    assert.partialDeepStrictEqual(events, [
      { type: 'request', status: status.OK, route: '/Users/GetUser' },
      { type: 'request', status: status.NOT_FOUND, id },
      { type: 'request', status: status.ABORTED },
      { type: 'request', status: status.CANCELLED },
    ]);
    assert.equal(events.length, 4);
  });
});

describe('addUsersService limits the calls that run at a time', () => {
  for (const [limit, given] of [
    [10_000, {}],
    [2, { maxInFlight: 2 }],
  ] as const) {
    it(`to ${limit} with the options ${JSON.stringify(given)}`, () => {
      const repository = createMemoryStore();
      repository.users.get = () => new Promise<never>(() => undefined);
      let getUser: handleUnaryCall<GetUserRequest, UserMessage> | undefined;
      // Over a socket, so many calls would take half a minute.
      const server = {
        addService(_: never, handlers: { getUser: typeof getUser }) {
          getUser = handlers.getUser;
        },
      };
      addUsersService(server, { repository, ...given });
      const request = new GetUserRequest();
      request.setId(1);
      const codes: unknown[] = [];
      for (let n = 0; n <= limit; n += 1) {
        const call = { request, metadata: new Metadata(), getPath: () => '/Users/GetUser' };
        const emitter: unknown = Object.assign(new EventEmitter(), call);
        getUser?.(emitter as ServerUnaryCall<GetUserRequest, UserMessage>, (error) =>
          codes.push(n, error?.code),
        );
      }
      assert.deepEqual(codes, [limit, status.RESOURCE_EXHAUSTED]);
    });
  }
});
