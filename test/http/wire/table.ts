import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { RawResponse } from '../../kit/raw.ts';
import { head, Wire } from '../../kit/wire.ts';
import { startService } from '../../support/service.ts';

export interface WireCase {
  /** The behaviour, with the section that asks for it where one does (RFC 9112 unless said). */
  readonly name: string;
  readonly send: string;
  /** The status of each response that must come, interim ones included. */
  readonly want: number | readonly number[];
  /** Whether the connection must end after them; otherwise it must serve another request. */
  readonly closes: boolean;
  readonly isHead?: boolean;
}

/** Builds a case whose connection goes on. */
export function goesOn(name: string, send: string, want: WireCase['want'], isHead = false): WireCase {
  return { name, send, want, closes: false, isHead };
}

/** Builds a case after which the connection must end. */
export function ends(name: string, send: string, want: WireCase['want'], isHead = false): WireCase {
  return { name, send, want, closes: true, isHead };
}

const another = head('GET /health', 'x-request-id: another');

/**
 * Sends the bytes of each case over a connection of its own, and checks the responses, their form, and
 * what becomes of the connection. Bytes that are left over must never run as a request.
 */
export function testWire(title: string, groups: Readonly<Record<string, readonly WireCase[]>>): void {
  test(title, { concurrency: true }, async (t) => {
    const { port, events } = await startService(t, { apiKeys: ['secret'], expectFailures: true });
    const cases = Object.entries(groups).flatMap(([group, cases]) => cases.map((one) => ({ group, ...one })));
    await Promise.all(cases.map((one) => t.test(`${one.group}: ${one.name}`, (t) => check(t, port, one))));
    const failures = events.filter((event) => event.type === 'failure');
    assert.deepEqual(failures, [], 'nothing on the wire is a failure of ours');
  });
}

async function check(t: TestContext, port: number, one: WireCase): Promise<void> {
  const wire = await Wire.open(t, port);
  if (one.isHead === true) wire.expectHead();
  wire.write(one.send);
  const wanted = typeof one.want === 'number' ? [one.want] : one.want;
  for (const status of wanted) {
    const response = await wire.next();
    assert.equal(response.status, status);
    checkForm(response, one.isHead === true);
  }
  if (one.closes) {
    assert.deepEqual(await wire.end(), [], 'nothing follows');
    assert.equal(wire.wasReset, false);
  } else {
    wire.write(another);
    assert.equal((await wire.next()).headers['x-request-id'], 'another');
  }
}

/** What every response has: a date, a length, and on a failure the one shape of all of them. */
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
