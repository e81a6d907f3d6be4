import { Chance } from '../generate.ts';
import { head, post } from '../wire.ts';

/** The bytes that a fuzzed connection sends. */
export interface FuzzInput {
  readonly bytes: Buffer;
  /** The positions at which the bytes are split into separate writes. */
  readonly cuts: readonly number[];
}

const json = 'Content-Type: application/json';
// Never HEAD, because its responses cannot be parsed without their requests, and never /boom.
const methods = [
  'GET',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'QUERY',
  'CONNECT',
  'FOO',
] as const;
const pathPieces = [
  '/',
  '//',
  '.',
  '..',
  '/users',
  '/users/',
  '/1',
  '/2147483648',
  '/99999999999999999999',
  '/posts',
  '/health',
  '/health/ready',
  '/info',
  '/echo',
  '/private',
  '/metrics',
  '/index.html',
  '*',
  '%',
  '%2',
  '%2f',
  '%2e%2e',
  '%00',
  '%0d%0a',
  '%c0%af',
  '%ff',
  '%u0041',
  '\\',
  '#',
  '?',
  ';',
  '@',
  ':',
  'http://x',
  'x',
  '\x00',
  '\x7f',
  '\xe9',
  ' ',
  '\t',
  '{id}',
  '__proto__',
  'é',
] as const;
const queryPieces = [
  '?',
  '&',
  '=',
  'role',
  'sort',
  '-name',
  'id',
  ',',
  'page',
  'limit',
  'cursor',
  '0',
  '1',
  '-1',
  '100',
  '101',
  '1e9',
  'NaN',
  '%',
  '%zz',
  '+',
  '[]',
  'eyJ',
  'constructor',
  'x'.repeat(300),
] as const;
const headerNames = [
  'Host',
  'Content-Length',
  'Transfer-Encoding',
  'Content-Type',
  'Content-Encoding',
  'Expect',
  'Connection',
  'Upgrade',
  'If-Match',
  'If-None-Match',
  'If-Modified-Since',
  'If-Range',
  'Range',
  'Accept',
  'Accept-Encoding',
  'Prefer',
  'Idempotency-Key',
  'x-api-key',
  'x-request-id',
  'traceparent',
  'Origin',
  'Cookie',
  'TE',
  'Trailer',
  'Access-Control-Request-Method',
  '__proto__',
  'constructor',
  'a b',
  '',
  'é',
  ':',
] as const;
const headerValues = [
  '',
  ' ',
  '0',
  '1',
  '2',
  '5',
  '-1',
  '+1',
  '0x1',
  '1, 1',
  '99999999999999999999',
  'x',
  'chunked',
  'gzip',
  'identity',
  'gzip, chunked',
  'close',
  'keep-alive',
  'upgrade',
  'websocket',
  'h2c',
  '100-continue',
  'application/json',
  'application/merge-patch+json',
  'application/problem+json',
  'text/html;q="',
  '*',
  '"1"',
  'W/"1"',
  '"1", "2',
  'bytes=0-1',
  'bytes=-',
  'bytes=0-1,2-3',
  'count=exact',
  'Thu, 01 Jan 1970 00:00:00 GMT',
  'a'.repeat(70),
  'a'.repeat(9_000),
  '\x00',
  '\x01',
  '\x7f',
  '\xff',
  'a\rb',
  'a\nb',
  'a\r\n b',
  '"key-1"',
] as const;
const corpus = [
  head('GET /health'),
  head('GET /users?sort=-name,role&limit=2&page=1'),
  head('GET /users/1', 'If-None-Match: "1"'),
  head('OPTIONS *'),
  head('GET /', 'Range: bytes=0-9', 'Accept-Encoding: br, gzip'),
  head('DELETE /users/1', 'If-Match: "1"'),
  post('/echo', '{"a":[1,2,{"b":"c"}]}'),
  post('/users/1/posts', '{"title":"Hi","body":"there"}', 'Idempotency-Key: "fuzz"'),
  post('/users', '{"name":"Ann"}', 'Expect: 100-continue'),
  `${head('POST /echo', json, 'Transfer-Encoding: chunked')}2\r\n[1\r\n1;a=b\r\n]\r\n0\r\nX: y\r\n\r\n`,
  head('GET /health') + head('GET /info') + head('GET /private', 'x-api-key: wrong'),
] as const;

/** The input with this number. The same seed and number give the same bytes. */
export function makeInput(seed: number, number: number): FuzzInput {
  const chance = new Chance(seed * 1_000_003 + number);
  const make = chance.pick([noise, anyTarget, anyHeaders, anyJson, anyChunks, mutated, mutated, validUser]);
  const bytes = Buffer.from(make(chance), 'latin1');
  const count = chance.below(3) === 0 ? chance.below(6) : 0;
  const cuts = Array.from({ length: count }, () => chance.below(bytes.length + 1)).sort((a, b) => a - b);
  return { bytes, cuts };
}

function several<T>(chance: Chance, max: number, make: () => T): T[] {
  return Array.from({ length: chance.below(max + 1) }, make);
}

function noise(chance: Chance): string {
  return several(chance, 300, () => String.fromCharCode(chance.below(256))).join('');
}

function anyTarget(chance: Chance): string {
  const path = several(chance, 6, () => chance.pick(pathPieces)).join('');
  const query = several(chance, 6, () => chance.pick(queryPieces)).join('');
  return head(`${chance.pick(methods)} ${path}${query}`);
}

function anyHeaders(chance: Chance): string {
  const lines = several(chance, 8, () => `${chance.pick(headerNames)}: ${chance.pick(headerValues)}`);
  const path = chance.pick(['/users', '/users/1', '/echo', '/', '/health', '/private']);
  return (
    head(`${chance.pick(methods)} ${path}`, ...lines) +
    chance.pick(['', '{}', '0\r\n\r\n', '2\r\n{}\r\n0\r\n\r\n'])
  );
}

function anyJson(chance: Chance): string {
  const text = JSON.stringify(chance.json());
  // Leave half of the inputs unchanged, and remove or repeat a piece of the others.
  const body = Buffer.from(chance.below(2) === 0 ? text : mutate(chance, text)).toString('latin1');
  const path = chance.pick(['/users', '/echo', '/users/1/posts', '/users/1', '/nowhere']);
  return post(path, body).replace('POST', chance.pick(['POST', 'PUT', 'PATCH']));
}

function anyChunks(chance: Chance): string {
  const sizes = [
    '0',
    '1',
    '2',
    '00',
    'a',
    'A',
    '-1',
    '+1',
    '0x1',
    ' 1',
    '1 ',
    '1;a',
    '1;a=b',
    '1;',
    'ffffffffffffffffff',
    'zz',
    '',
  ] as const;
  const chunks = several(chance, 5, () => {
    const data = chance.pick(['', '[', ']', '{}', '"a"', 'x'.repeat(40)]);
    const size = chance.below(3) === 0 ? chance.pick(sizes) : data.length.toString(16);
    return `${size}${chance.pick(['\r\n', '\r\n', '\r\n', '\n', '\r'])}${data}\r\n`;
  });
  const end = chance.pick(['0\r\n\r\n', '0\r\n\r\n', '0\r\nX: y\r\n\r\n', '0\r\n', '']);
  return head('POST /echo', json, 'Transfer-Encoding: chunked') + chunks.join('') + end;
}

function mutated(chance: Chance): string {
  return mutate(chance, several(chance, 2, () => chance.pick(corpus)).join('') + chance.pick(corpus));
}

function validUser(chance: Chance): string {
  const name = `${chance.text().replaceAll(/\p{Cc}|\p{Cs}/gu, '')}x`.slice(0, 100);
  return post('/users', Buffer.from(JSON.stringify({ name: name.toWellFormed() })).toString('latin1'));
}

function mutate(chance: Chance, text: string): string {
  let result = text;
  for (let left = 1 + chance.below(4); left > 0; left -= 1) {
    const at = chance.below(result.length + 1);
    const length = chance.below(8);
    const piece = result.slice(at, at + length);
    const noise = String.fromCharCode(chance.below(256));
    result = chance.pick([
      () => result.slice(0, at) + noise + result.slice(at + 1),
      () => result.slice(0, at) + noise + result.slice(at),
      () => result.slice(0, at) + result.slice(at + length),
      () => result.slice(0, at) + piece + piece + result.slice(at + length),
      () => result.slice(0, at),
      () =>
        result.slice(0, at) +
        chance.pick(['\r\n', '\r\n\r\n', '\x00', ' ', ':', '%', '"', '{', '0']) +
        result.slice(at),
    ])();
  }
  return result;
}
