import assert from 'node:assert/strict';
import { Client, credentials } from '@grpc/grpc-js';
import { GetUserRequest, UserMessage } from '../../../src/grpc/users.ts';
import { dataFile } from '../data.ts';
import type { Load } from '../load.ts';
import { openDatabase } from '../peers/database.ts';
import { serviceOver } from '../peers.ts';
import type { Case } from '../result.ts';
import { peer, type Subject } from '../subject.ts';
import { contest, type Work } from '../turns.ts';

const id = 7;
const method = '/Users/GetUser';

export const getUserByGrpc: Case = {
  name: 'grpc',
  title: 'gRPC GetUser',
  async run(context) {
    const file = await dataFile(context.dataFolder, 100_000);
    const name = openDatabase(file).getUser(id)?.user.name ?? '';
    const contestants = [
      serviceOver(file),
      { name: 'nice-grpc', program: peer('nice-grpc.ts', file, '--features') },
      { name: 'nice-grpc, bare', program: peer('nice-grpc.ts', file) },
      { name: 'grpc-js, a constant', program: peer('grpc-bare.ts', name) },
    ];
    const bars = [
      { theirs: 'nice-grpc', atLeast: 1.5 },
      { theirs: 'nice-grpc, bare', atLeast: 1.25 },
      { theirs: 'grpc-js, a constant', atLeast: 0.7 },
    ];
    return await contest(contestants, [grpcWork(this.name, this.title, name, bars)], context);
  },
};

/** Calls of GetUser for one user. */
export const getUserCalls: Load = {
  connections: 8,
  streams: 8,
  paths: [method],
  headers: { 'content-type': 'application/grpc', te: 'trailers' },
  body: framed(message().serializeBinary()),
};

/** GetUser of one user with a known name. */
export function grpcWork(name: string, title: string, userName: string, bars: Work['bars'] = []): Work {
  const user = new UserMessage();
  user.setId(id);
  user.setName(userName);
  const load = { ...getUserCalls, replyBytes: framed(user.serializeBinary()).length };
  return { name, title, bars, load, check: (subject) => answersUser(subject, userName) };
}

function message() {
  const request = new GetUserRequest();
  request.setId(id);
  return request;
}

/** A gRPC message: the compression flag, the length and the bytes. */
function framed(bytes: Uint8Array): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

async function answersUser({ grpc }: Subject, name: string): Promise<void> {
  const client = new Client(grpc, credentials.createInsecure());
  try {
    const user = await new Promise<UserMessage | undefined>((resolve, reject) => {
      client.makeUnaryRequest(
        method,
        (request: GetUserRequest) => Buffer.from(request.serializeBinary()),
        UserMessage.deserializeBinary,
        message(),
        (error, response) => (error === null ? resolve(response) : reject(error)),
      );
    });
    assert.equal(user?.getName(), name);
  } finally {
    client.close();
  }
}
