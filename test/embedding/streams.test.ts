import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import express, { type RequestHandler } from 'express';
import { createRequestListener } from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { listen } from '../support/listen.ts';
import { temporaryFolder } from '../support/temporary.ts';

// This package has no type declarations.
const compression: () => RequestHandler = createRequire(import.meta.url)('compression');

// Much shorter than the test, so that a response that waits for a missing event is aborted.
const limits = { writeTimeoutMs: 2_000 };

/** Text that does not compress well, so that the compressed bytes fill every buffer too. */
function noise(length: number): string {
  let state = 1;
  return Array.from({ length }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return String.fromCharCode(33 + (state % 90));
  }).join('');
}

test('streams and long files arrive completely through the compression of Express', async (t) => {
  const folder = temporaryFolder();
  const long = noise(1_000_000);
  await writeFile(join(folder, 'long.txt'), long);
  const description = await readFile(new URL('../../public/openapi.json', import.meta.url), 'utf8');
  await writeFile(join(folder, 'openapi.json'), description);
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const body = noise(9_000);
  for (let i = 0; i < 350; i++) await repository.posts(1).create({ title: `Post ${i}`, body });

  const app = express();
  app.use(compression());
  app.use(createRequestListener({ repository, publicDir: folder, limits }));
  const { http: base } = await listen(t, createServer(app));
  const read = async (path: string): Promise<string> => {
    const response = await fetch(base + path, { headers: { 'accept-encoding': 'gzip' } });
    assert.deepEqual([response.status, response.headers.get('content-encoding')], [200, 'gzip'], path);
    return await response.text();
  };
  const posts: unknown = JSON.parse(await read('/users/1/posts'));
  assert.ok(Array.isArray(posts));
  assert.deepEqual([posts.length, posts.at(-1)], [350, { id: 350, userId: 1, title: 'Post 349', body }]);
  assert.ok((await read('/openapi.json')) === description, 'the OpenAPI document has changed');
  assert.ok((await read('/long.txt')) === long, 'the file has changed');
});

test('a file is sent unchanged by a server that buffers more than a chunk', async (t) => {
  const folder = temporaryFolder();
  const long = noise(1_000_000);
  await writeFile(join(folder, 'long.txt'), long);
  const listener = createRequestListener({ repository: createMemoryStore(), publicDir: folder, limits });
  const { http: base } = await listen(t, createServer({ highWaterMark: 4_000_000 }, listener));
  const texts = await Promise.all(
    Array.from({ length: 4 }, async () => (await fetch(`${base}/long.txt`)).text()),
  );
  assert.ok(texts.every((text) => text === long));
});

test('middleware of a host may keep the chunks of a file that were sent', async (t) => {
  const folder = temporaryFolder();
  const long = noise(1_000_000);
  await writeFile(join(folder, 'long.txt'), long);
  await writeFile(join(folder, 'other.txt'), 'x'.repeat(1_000_000));
  const listener = createRequestListener({ repository: createMemoryStore(), publicDir: folder, limits });
  const kept: Uint8Array[] = [];
  const keeper: RequestHandler = (request, response, next) => {
    const write = response.write.bind(response);
    response.write = (chunk: Uint8Array, ...rest: never[]) => {
      if (request.url === '/long.txt') kept.push(chunk);
      return write(chunk, ...rest);
    };
    next();
  };
  const app = express();
  app.use(keeper);
  app.use(listener);
  const { http: base } = await listen(t, createServer(app));
  for (const path of ['/long.txt', '/other.txt']) await (await fetch(base + path)).text();
  assert.ok(Buffer.concat(kept).equals(Buffer.from(long)));
});

test('the connection of a client that does not read is closed even when the server has buffered the stream', async (t) => {
  const folder = temporaryFolder();
  await writeFile(join(folder, 'long.bin'), Buffer.alloc(20_000_000));
  const ended = Promise.withResolvers<number>();
  const listener = createRequestListener({
    repository: createMemoryStore(),
    publicDir: folder,
    limits: { writeTimeoutMs: 300 },
    observe: (event) => event.type === 'request' && ended.resolve(event.status),
  });
  const { http: base } = await listen(t, createServer({ highWaterMark: 40_000_000 }, listener));
  const socket = connect(Number(new URL(base).port), '127.0.0.1').pause();
  t.after(() => socket.destroy());
  socket.write('GET /long.bin HTTP/1.1\r\nHost: localhost\r\n\r\n');
  assert.equal(await ended.promise, 499);
});

test('nothing is written to a stream that the host has ended', async (t) => {
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const listener = createRequestListener({ repository, publicDir: false });
  const following = Promise.withResolvers<ServerResponse>();
  const server = createServer({ highWaterMark: 40_000_000 }, (request, response) => {
    listener(request, response);
    following.resolve(response);
  });
  const { http: base } = await listen(t, server);
  const stalled = connect(Number(new URL(base).port), '127.0.0.1').pause();
  t.after(() => stalled.destroy());
  stalled.write('GET /changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n');
  const response = await following.promise;
  const body = noise(9_000);
  while (response.writableLength === 0) {
    await repository.posts(1).create({ title: 'A post', body });
    await setImmediate();
  }
  // For example when the host stops. The last bytes still wait.
  response.end();
  const after = await repository.changes?.position();
  const headers = { accept: 'text/event-stream' };
  const other = await fetch(`${base}/changes?after=${after}`, { headers });
  assert.ok(other.body);
  const reader = other.body.pipeThrough(new TextDecoderStream()).getReader();
  await reader.read();
  await repository.users.create({ name: 'Eve' });
  // This follower is woken after the other one.
  assert.match((await reader.read()).value ?? '', /user\.created/);
  await reader.cancel();
  assert.deepEqual([response.writableEnded, response.destroyed], [true, false]);
});
