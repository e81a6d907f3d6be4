import assert from 'node:assert/strict';
import { Client, credentials } from '@grpc/grpc-js';
import { GetUserRequest, UserMessage } from '../../../src/grpc/stubs.ts';
import type { Case } from '../case.ts';
import { dataFile } from '../data.ts';
import { measureThroughput } from '../measure.ts';
import { openDatabase } from '../peers/database.ts';
import { peer, type Subject, service } from '../subject.ts';

const users = 100_000;
const id = 7;
const method = '/Users/GetUser';
const ours = 'users-service';
const bare = 'bare grpc-js';

export const getUserByGrpc: Case = {
  name: 'grpc',
  title: 'gRPC GetUser from SQLite',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const name = openDatabase(file).getUser(id)?.name ?? '';
    const check = (subject: Subject) => answersUser(subject, name);
    const request = {
      method: 'POST',
      path: method,
      headers: { 'content-type': 'application/grpc', te: 'trailers' },
      body: framed(message().serializeBinary()),
    } as const;
    return await measureThroughput(
      {
        name: this.name,
        title: this.title,
        load: { connections: 8, streams: 8, requests: [request] },
        contestants: [
          { name: ours, program: service(['--database', `sqlite:${file}`]), check },
          { name: bare, program: peer('grpc-bare', name), check },
          { name: 'connect-node', program: peer('connect-node', file), check },
          { name: 'nice-grpc', program: peer('nice-grpc', file), check },
        ],
        bars: [
          { ours, theirs: bare, atLeast: 0.95 },
          { ours, theirs: 'connect-node', atLeast: 1 },
          { ours, theirs: 'nice-grpc', atLeast: 1 },
        ],
      },
      context,
    );
  },
};

function message() {
  const request = new GetUserRequest();
  request.setId(id);
  return request;
}

/** A message as it travels: not compressed, its length, itself. */
function framed(bytes: Uint8Array): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Fails unless GetUser of the user that the load asks for gives this name. */
export async function answersUser({ grpc }: Pick<Subject, 'grpc'>, name: string): Promise<void> {
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
