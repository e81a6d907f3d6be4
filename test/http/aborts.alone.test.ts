import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { until } from '../kit/until.ts';
import { head } from '../kit/wire.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';

const rounds = 4;
const json = 'Content-Type: application/json';
const chunked = 'Transfer-Encoding: chunked';

/** The start of each request after which the client disconnects. None of the requests is complete. */
const openings: readonly { readonly send: string; readonly waitsForData?: boolean }[] = [
  { send: '' },
  { send: 'POST /us' },
  { send: 'POST /users HTTP/1.1\r\nHost: localhost\r\nContent-' },
  { send: head('POST /users', json, 'Content-Length: 20') },
  { send: `${head('POST /users', json, 'Content-Length: 20')}{"name":"Ann"` },
  { send: head('POST /users', json, chunked) },
  { send: `${head('POST /users', json, chunked)}e\r\n{"name":"Ann"}\r\n` },
  { send: `${head('POST /users', json, chunked)}e\r\n{"name":"An` },
  { send: `${head('PUT /users/1', json, 'Content-Length: 99')}{"name":"Eve"` },
  { send: head('POST /users', json, 'Content-Length: 20', 'Expect: 100-continue'), waitsForData: true },
  { send: head('GET /long.bin'), waitsForData: true },
  { send: head('GET /long.bin') + head('GET /long.bin') },
  { send: head('HEAD /long.bin') + head('GET /users') },
  { send: head('CONNECT x:1') },
];

/** Opens a connection, sends a part of a request, and then resets or ends the connection. */
async function abortRequest(port: number, opening: (typeof openings)[number], end: 'reset' | 'end') {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  if (opening.send !== '') await new Promise((resolve) => socket.write(opening.send, resolve));
  if (opening.waitsForData === true) await once(socket, 'data');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  if (end === 'reset') socket.resetAndDestroy();
  else socket.destroy();
  await closed;
}

test('aborted requests leave no stored record, no request in flight and no open connection', async (t) => {
  const publicDir = temporaryFolder();
  await writeFile(join(publicDir, 'long.bin'), Buffer.alloc(30_000_000));
  const repository = createMemoryStore();
  await repository.users.create({ name: 'Ada' });
  const { http, port, failures } = await startService(t, { publicDir, repository });
  const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
  const descriptors = () => (existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 0);
  const rejections: unknown[] = [];
  const onRejection = (reason: unknown) => rejections.push(reason);
  process.on('unhandledRejection', onRejection);
  t.after(() => process.off('unhandledRejection', onRejection));

  await send(http, 'GET /users');
  const before = { sockets: sockets(), descriptors: descriptors() };
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all(
      openings.flatMap((opening) => [
        abortRequest(port, opening, 'reset'),
        abortRequest(port, opening, 'end'),
      ]),
    );
  }

  const inFlight = async () =>
    /in_flight\{face="http"\} (\d+)/.exec((await send(http, 'GET /metrics')).text)?.[1];
  await until(async () => (await inFlight()) === '1', 'only the request for the metrics is in flight');
  await until(() => sockets() <= before.sockets, 'no more sockets are open than before');
  await until(() => descriptors() <= before.descriptors, 'no more descriptors are open than before');
  const { headers, json } = await send(http, 'GET /users', { headers: { prefer: 'count=exact' } });
  assert.equal(headers['x-total-count'], '1');
  assert.deepEqual(json, [{ id: 1, name: 'Ada' }]);
  assert.deepEqual(failures(), []);
  assert.deepEqual(rejections, []);
});
