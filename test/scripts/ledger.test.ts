import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import { it, type TestContext } from 'node:test';
import { create, Ledger } from '../kit/ledger.ts';
import { listen } from '../support/listen.ts';

/** Sends a creation to a server that responds like this. */
async function createAt(t: TestContext, listener: RequestListener) {
  const { http } = await listen(t, createServer(listener));
  const intent = new Ledger().add();
  return { intent, outcome: create(http, intent) };
}

const replyWith =
  (status: number, body: string): RequestListener =>
  (_, response) =>
    response.writeHead(status).end(body);

const outcomes: readonly [name: string, listener: RequestListener, expected: string, id?: number][] = [
  ['a created user is acknowledged', replyWith(201, '{"id":7}'), 'acknowledged', 7],
  ['409 is refused', replyWith(409, '{}'), 'refused'],
  ['503 is refused', replyWith(503, '{}'), 'refused'],
  ['a lost connection is gone', (request) => request.socket.destroy(), 'gone'],
  [
    'an incomplete body is gone',
    (request, response) =>
      response.writeHead(201, { 'content-length': 8 }).write('{"id', () => request.socket.destroy()),
    'gone',
  ],
];
for (const [name, listener, expected, id] of outcomes) {
  it(`the scripts judge a creation: ${name}`, async (t) => {
    const { intent, outcome } = await createAt(t, listener);
    assert.equal(await outcome, expected);
    assert.equal(intent.id, id);
  });
}

for (const [status, body] of [
  [201, '{"id":'],
  [201, '{}'],
  [404, '{}'],
  [422, '{}'],
  [500, '{}'],
] as const) {
  it(`the scripts fail for a creation whose response is ${status} with ${body}`, async (t) => {
    const { outcome } = await createAt(t, replyWith(status, body));
    await assert.rejects(outcome);
  });
}
