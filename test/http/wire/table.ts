import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { RawResponse } from '../../kit/raw.ts';
import { head, Wire } from '../../kit/wire.ts';
import { startService } from '../../support/service.ts';

export interface WireCase {
  /** The behaviour, with the section that requires it, if any (of RFC 9112 unless another is named). */
  readonly name: string;
  readonly send: string;
  /** The status of each expected response, including interim responses. */
  readonly want: number | readonly number[];
  /** Whether the connection must close after them. Otherwise it must serve another request. */
  readonly closes: boolean;
  readonly isHead?: boolean;
}

/** Builds a case whose connection stays open. */
export function goesOn(name: string, send: string, want: WireCase['want'], isHead = false): WireCase {
  return { name, send, want, closes: false, isHead };
}

/** Builds a case whose connection must close. */
export function ends(name: string, send: string, want: WireCase['want'], isHead = false): WireCase {
  return { name, send, want, closes: true, isHead };
}

// As long as the service waits for the rest of a request that it has rejected.
const lingerMs = 1_000;

const another = head('GET /health', 'x-request-id: another');

/**
 * Sends the bytes of each case over a separate connection, and checks the responses, their form, and whether
 * the connection closes. Remaining bytes must never run as a request.
 */
export function testWire(title: string, groups: Readonly<Record<string, readonly WireCase[]>>): void {
  test(title, { concurrency: true }, async (t) => {
    const { port, events } = await startService(t, { apiKeys: ['secret'], expectFailures: true });
    // On a slow machine, the service would otherwise wait for less time than a client needs to read its response.
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let reading = 0;
    const onRead = () => {
      reading -= 1;
      if (reading === 0) t.mock.timers.tick(lingerMs);
    };
    const run = async (t: TestContext, one: WireCase): Promise<void> => {
      reading += 1;
      await check(t, port, one, onRead);
    };
    const cases = Object.entries(groups).flatMap(([group, cases]) => cases.map((one) => ({ group, ...one })));
    await Promise.all(cases.map((one) => t.test(`${one.group}: ${one.name}`, (t) => run(t, one))));
    t.mock.timers.reset();
    const failures = events.filter((event) => event.type === 'failure');
    assert.deepEqual(failures, [], 'invalid input must not be reported as a failure');
  });
}

/** Calls `onRead` when the client has read all responses, or has failed. */
async function check(t: TestContext, port: number, one: WireCase, onRead: () => void): Promise<void> {
  const wire = await Wire.open(t, port);
  if (one.isHead === true) wire.expectHead();
  wire.write(one.send);
  const wanted = typeof one.want === 'number' ? [one.want] : one.want;
  try {
    for (const status of wanted) {
      const response = await wire.next();
      assert.equal(response.status, status);
      checkForm(response, one.isHead === true);
    }
  } finally {
    onRead();
  }
  if (one.closes) {
    assert.deepEqual(await wire.end(), [], 'there must be no further response');
    assert.equal(wire.wasReset, false);
  } else {
    wire.write(another);
    assert.equal((await wire.next()).headers['x-request-id'], 'another');
  }
}

/** Checks the headers that every response has, and the form of error bodies. */
export function checkForm({ status, headers, body }: RawResponse, isHead: boolean): void {
  if (status === 100) return;
  assert.match(headers['date'] ?? '', /^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/);
  if (status === 204 || status === 304) assert.equal(headers['content-length'], undefined);
  else assert.match(headers['content-length'] ?? '', /^\d+$/);
  assert.equal(headers['x-content-type-options'], 'nosniff');
  assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
  if (status < 400) return;
  assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(headers['cache-control'], 'no-store');
  if (isHead) return;
  const parsed: unknown = JSON.parse(body);
  assert.deepEqual(Object.keys(Object(parsed)), ['error']);
  assert.match(String(Object(parsed).error), /^.{1,200}$/);
}
