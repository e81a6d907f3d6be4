import assert from 'node:assert/strict';
import { Socket } from 'node:net';
import { test } from 'node:test';
import type { SecureContextOptions } from 'node:tls';
import type { Server } from '@grpc/grpc-js';
import { agingConnections } from '../../src/grpc/app.ts';

for (const [random, from, to] of [
  [0, 9_500, 10_000],
  [0.999, 8_500, 9_010],
] as const) {
  test(`the random number ${random} closes a connection after ${from} to ${to} of 10,000 ms, with the grace period`, (t) => {
    let now = 1_234;
    t.mock.timers.enable({ apis: ['setTimeout'] });
    t.mock.method(performance, 'now', () => now);
    t.mock.method(Math, 'random', () => random);
    const calls: [method: string, ms: number, graceMs?: number][] = [];
    const injector = {
      injectConnection: () => calls.push(['accept', now - 1_234]),
      drain: (graceMs: number) => calls.push(['drain', now - 1_234, graceMs]),
      destroy: () => calls.push(['destroy', now - 1_234]),
    };
    const server = { createConnectionInjector: () => injector } as unknown as Server;
    const connections = agingConnections(server, 10_000, 30);
    connections.accept(new Socket(), undefined);
    for (; now < 30_000; now += 10) t.mock.timers.tick(10);
    const [, [, closedAt = 0] = []] = calls;
    assert.ok(closedAt >= from && closedAt <= to, `closed after ${closedAt} ms`);
    assert.deepEqual(calls, [
      ['accept', 0],
      ['drain', closedAt, 30],
      ['destroy', closedAt],
    ]);
  });
}

test('connections share a group only if they close at about the same time, with the same certificate', (t) => {
  let now = 1_000;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(performance, 'now', () => now);
  t.mock.method(Math, 'random', () => 0);
  const drained: number[] = [];
  let groups = 0;
  const createConnectionInjector = () => {
    groups += 1;
    return { injectConnection() {}, drain: () => drained.push(now), destroy() {} };
  };
  const server = { createConnectionInjector } as unknown as Server;
  const connections = agingConnections(server, 10_000, 30);
  let certificate: SecureContextOptions | undefined;
  const groupsAfter = () => {
    connections.accept(new Socket(), certificate);
    return groups;
  };
  assert.deepEqual([groupsAfter(), groupsAfter()], [1, 1]);
  certificate = { cert: 'new', key: 'new' };
  assert.deepEqual([groupsAfter(), groupsAfter()], [2, 2]);
  now = 2_000;
  t.mock.timers.tick(1_000);
  assert.deepEqual([groupsAfter(), groupsAfter()], [3, 3]);
  t.mock.timers.tick(9_000);
  assert.equal(drained.length, 2);
  t.mock.timers.tick(1_000);
  assert.equal(drained.length, 3);
  assert.equal(groupsAfter(), 4);
  connections.drain();
  t.mock.timers.tick(20_000);
  assert.equal(drained.length, 3);
});
