import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpError } from '../../src/http/reply.ts';
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
