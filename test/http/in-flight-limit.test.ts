import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { HttpError } from '../../src/http/http-error.ts';
import { InFlightLimit } from '../../src/http/in-flight-limit.ts';

/** A request on a connection of its own. */
function holder() {
  const raw = new IncomingMessage(new Socket());
  return { request: { raw, admitted: false }, response: new ServerResponse(raw) };
}

/** What a request that finds no room is asked to wait; it is then held so long. */
function refuse(limit: InFlightLimit): string | undefined {
  const { request, response } = holder();
  try {
    limit.acquire(request, response);
  } catch (caught) {
    assert.ok(caught instanceof HttpError && caught.status === 503);
    response.emit('close');
    return caught.headers['retry-after'];
  }
  return undefined;
}

test('the more are waiting the longer each is asked to wait', (t) => {
  const limit = new InFlightLimit(0);
  t.after(() => limit.close());
  const asked = Array.from({ length: 6_001 }, () => refuse(limit));
  assert.deepEqual(
    [0, 1_999, 2_000, 3_999, 4_000, 6_000].map((n) => asked[n]),
    ['1', '1', '2', '2', '3', '4'],
  );
});

test('one that has left before it enters takes no place', async () => {
  const limit = new InFlightLimit(1);
  const { request, response } = holder();
  response.destroy();
  await new Promise((resolve) => response.once('close', resolve));
  limit.acquire(request, response);
  assert.equal(request.admitted, false);
  assert.equal(refuse(limit), undefined, 'there is room for another');
  assert.equal(refuse(limit), '1');
  limit.close();
});
