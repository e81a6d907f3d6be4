import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { head } from './wire.ts';

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

/** The number of ways in which `abortRequest` disconnects. */
export const abortKinds = openings.length * 2;

/** Opens a connection, sends a part of a request, and then resets or ends the connection. */
export async function abortRequest(port: number, kind: number): Promise<void> {
  const opening = openings[kind % openings.length];
  if (opening === undefined) return;
  const socket: Socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  if (opening.send !== '') await new Promise((resolve) => socket.write(opening.send, resolve));
  if (opening.waitsForData === true) await once(socket, 'data');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  if (Math.floor(kind / openings.length) % 2 === 0) socket.resetAndDestroy();
  else socket.destroy();
  await closed;
}
