import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpError, json } from '../../src/http/reply.ts';
import { head, Wire } from '../kit/wire.ts';
import { startKit } from '../support/http-kit.ts';

const plain = 'application/json; charset=utf-8';
const problem = 'application/problem+json';
const accepts: readonly [accept: string, type: string][] = [
  ['*/*', plain],
  ['application/*', plain],
  ['application/json', plain],
  ['text/html', plain],
  ['', plain],
  [problem, problem],
  ['Application/Problem+JSON', problem],
  [`${problem}, application/json`, problem],
  [`application/json, ${problem}`, problem],
  [`application/json;q=0.5, ${problem};q=0.6`, problem],
  [`application/json;q=0.6, ${problem};q=0.5`, plain],
  [`${problem};q=0`, plain],
  [`${problem};q=0.5, */*`, plain],
  [`${problem};q=0.5, application/*`, plain],
  [`${problem};q=x`, plain],
  // An empty element of a list means nothing (RFC 9110, 5.6.1).
  [`${problem};q=0.5,`, problem],
];

for (const [accept, type] of accepts) {
  test(`an error for Accept: ${accept} has the type ${type}`, async (t) => {
    const { port } = await startKit(t, { 'GET /': () => ({ status: 204 }) });
    const wire = (await Wire.open(t, port)).write(
      head('GET /nowhere', `Accept: ${accept}`, 'x-request-id: mine'),
    );
    const { status, headers, body } = await wire.next();
    assert.equal(status, 404);
    assert.equal(headers['content-type'], type);
    assert.equal(headers['cache-control'], 'no-store');
    const message = 'no such resource';
    const fields = { title: 'Not Found', status: 404, detail: message, instance: 'urn:request:mine' };
    assert.deepEqual(JSON.parse(body), type === problem ? fields : { error: message });
  });
}

// A timeout also ends a connection whose head was not read in time, and then without the id of the request.
const noTimeout = { headersTimeoutMs: 0, requestTimeoutMs: 0 };
const timeout = { headersTimeoutMs: 500, requestTimeoutMs: 500, checkingIntervalMs: 20 };
const bodies: readonly [
  what: string,
  body: string,
  status: number,
  title: string,
  detail: string,
  timeouts: typeof noTimeout,
][] = [
  ['is malformed', 'zz\r\n', 400, 'Bad Request', 'the request is malformed', noTimeout],
  ['does not arrive in time', '', 408, 'Request Timeout', 'the request did not arrive in time', timeout],
];

for (const [what, body, status, title, detail, timeouts] of bodies) {
  test(`a request whose body ${what} gets an error with its id, type and headers`, async (t) => {
    const { port } = await startKit(
      t,
      { 'POST /': async (request) => json(200, (await request.json()).value) },
      { commonHeaders: { 'x-common': 'yes' }, timeouts },
    );
    const lines = ['Content-Type: application/json', 'Transfer-Encoding: chunked', `Accept: ${problem}`];
    const wire = (await Wire.open(t, port)).write(head('POST /', ...lines, 'x-request-id: mine'), body);
    const response = await wire.next();
    assert.equal(response.status, status);
    assert.equal(response.headers['x-request-id'], 'mine');
    assert.equal(response.headers['x-common'], 'yes');
    assert.equal(response.headers['content-type'], problem);
    assert.deepEqual(JSON.parse(response.body), { title, status, detail, instance: 'urn:request:mine' });
    assert.deepEqual(await wire.end(), []);
  });
}

test('the error for a target that is not ASCII says how to write it', async (t) => {
  const { port } = await startKit(t, {});
  const wire = (await Wire.open(t, port)).write('GET /?name=Zo\xc3\xab HTTP/1.1\r\nHost: x\r\n\r\n');
  const { status, body } = await wire.next();
  assert.equal(status, 400);
  assert.deepEqual(JSON.parse(body), {
    error: 'the request target must be a path, percent-encoded if not ASCII',
  });
});

test('an error message is escaped as JSON', async (t) => {
  const message = '"quotes", \\ and <b> \u2028';
  const { port } = await startKit(t, {
    'GET /': () => {
      throw new HttpError(400, message, { 'x-more': 'yes' });
    },
  });
  const { headers, body } = await (await Wire.open(t, port)).write(head('GET /')).next();
  assert.deepEqual(JSON.parse(body), { error: message });
  assert.equal(headers['x-more'], 'yes');
});
