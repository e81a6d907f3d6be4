import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Client, credentials } from '@grpc/grpc-js';
import jspb from 'google-protobuf';
import { until } from '../kit/until.ts';
import { connectWire, framed, openCall, split } from '../support/grpc-wire.ts';
import { startService } from '../support/service.ts';

// The messages of grpc.reflection, field by field, as an independent client sends and reads them.
const ask = {
  fileByName: 3,
  fileContainingSymbol: 4,
  fileContainingExtension: 5,
  extensionNumbers: 6,
  listServices: 7,
};

const varint = 0;

interface Answer {
  /** The original request, as the response contains it. */
  readonly asked: string;
  readonly services: readonly string[];
  readonly files: readonly Uint8Array[];
  readonly error: number | undefined;
}

function question(field: number, text: string): Buffer {
  const writer = new jspb.BinaryWriter();
  writer.writeString(field, text);
  return Buffer.from(writer.getResultBuffer());
}

function read(bytes: Uint8Array): Answer {
  const texts = (field: number, inner: Uint8Array) =>
    bytesOf(inner, field).map((text) => Buffer.from(text).toString());
  const [asked] = bytesOf(bytes, 2).flatMap((original) =>
    [ask.fileByName, ask.fileContainingSymbol].flatMap((field) => texts(field, original)),
  );
  const services = bytesOf(bytes, 6).flatMap((list) =>
    bytesOf(list, 1).flatMap((service) => texts(1, service)),
  );
  const [failure] = bytesOf(bytes, 7);
  return {
    asked: asked ?? '',
    services,
    files: bytesOf(bytes, 4).flatMap((answer) => bytesOf(answer, 1)),
    error:
      failure === undefined ? undefined : (fieldsOf(failure).find(([field]) => field === 1)?.[1] as number),
  };
}

/** The fields of a message in order: numbers as they are, everything else as its bytes. */
function fieldsOf(bytes: Uint8Array): [field: number, value: number | Uint8Array][] {
  const fields: [number, number | Uint8Array][] = [];
  const reader = new jspb.BinaryReader(bytes);
  while (reader.nextField()) {
    const isNumber = reader.getWireType() === varint;
    fields.push([reader.getFieldNumber(), isNumber ? reader.readInt32() : reader.readBytes()]);
  }
  return fields;
}

function bytesOf(bytes: Uint8Array, field: number): Uint8Array[] {
  return fieldsOf(bytes).flatMap(([number, value]) =>
    number === field && typeof value !== 'number' ? [value] : [],
  );
}

/** The first field of a FileDescriptorProto. */
function nameOf(file: Uint8Array): string {
  return Buffer.from(bytesOf(file, 1)[0] ?? '').toString();
}

for (const version of ['v1', 'v1alpha']) {
  const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;

  test(`grpc.reflection.${version} lists the services and returns the file that defines each name`, async (t) => {
    const { grpc } = await startService(t, { grpcPort: 0 });
    const client = new Client(grpc, credentials.createInsecure());
    t.after(() => client.close());
    const stream = client.makeBidiStreamRequest(path, (bytes: Buffer) => bytes, read);
    stream.on('error', () => undefined);
    const inquire = async (field: number, text: string): Promise<Answer> => {
      const { promise, resolve } = Promise.withResolvers<Answer>();
      stream.once('data', resolve);
      stream.write(question(field, text));
      return await promise;
    };

    assert.deepEqual((await inquire(ask.listServices, '*')).services, ['Users', 'grpc.health.v1.Health']);
    for (const [symbol, file] of [
      ['Users', 'users.proto'],
      ['Users.GetUser', 'users.proto'],
      ['User', 'users.proto'],
      ['GetUserRequest', 'users.proto'],
      ['grpc.health.v1.Health', 'grpc/health/v1/health.proto'],
      ['grpc.health.v1.HealthCheckResponse.ServingStatus', 'grpc/health/v1/health.proto'],
    ] as const) {
      const answer = await inquire(ask.fileContainingSymbol, symbol);
      assert.deepEqual(answer.files.map(nameOf), [file], symbol);
      assert.equal(answer.asked, symbol, 'the response contains the original request');
      const byName = await inquire(ask.fileByName, file);
      assert.deepEqual(byName.files.map(nameOf), [file]);
    }
    for (const [field, text] of [
      [ask.fileContainingSymbol, 'Nobody'],
      [ask.fileContainingSymbol, ''],
      [ask.fileContainingSymbol, '__proto__'],
      [ask.fileByName, '../users.proto'],
      [ask.fileByName, '/etc/passwd'],
      [ask.extensionNumbers, 'User'],
    ] as const) {
      const answer = await inquire(field, text);
      assert.deepEqual([answer.error, answer.files], [5, []], text);
    }
    const { promise, resolve } = Promise.withResolvers<number>();
    stream.once('status', ({ code }) => resolve(code));
    stream.end();
    assert.equal(await promise, 0);
  });
}

test('a reflection client gets all responses to many requests at once', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  const client = new Client(grpc, credentials.createInsecure());
  t.after(() => client.close());
  const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
  const stream = client.makeBidiStreamRequest(path, (bytes: Buffer) => bytes, read);
  const count = 200;
  for (let i = 0; i < count; i += 1) stream.write(question(ask.fileContainingSymbol, 'Users'));
  const answers: Answer[] = [];
  for await (const answer of stream) {
    answers.push(answer);
    if (answers.length === count) stream.end();
  }
  assert.deepEqual([answers.length, answers.filter(({ asked }) => asked === 'Users').length], [count, count]);
});

test('a reflection client may send a request that is longer than the rest of its window', async (t) => {
  const { grpc } = await startService(t, { grpcPort: 0 });
  const call = openCall(
    await connectWire(t, grpc),
    '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  );
  const chunks: Buffer[] = [];
  call.on('data', (chunk: Buffer) => chunks.push(chunk));
  const requestOf = (length: number) => framed(question(ask.listServices, 'a'.repeat(length)));
  // Read after the first one, and the call pauses after each.
  call.write(Buffer.concat([requestOf(1_000), requestOf(1_000)]));
  await until(() => split(Buffer.concat(chunks)).length === 2, 'the first two requests have a response');
  call.end(requestOf(64_000));
  await once(call, 'end');
  assert.equal(split(Buffer.concat(chunks)).length, 3);
});
