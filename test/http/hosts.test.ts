import assert from 'node:assert/strict';
import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { test } from 'node:test';
import { hostCheck } from '../../src/http/head.ts';
import { createRequestListener } from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { Wire } from '../kit/wire.ts';
import { createCertificate } from '../support/certificate.ts';
import { listen } from '../support/listen.ts';
import { startService } from '../support/service.ts';

const loopback = '127.0.0.1';
const anywhere = '0.0.0.0';
type Case = readonly [listensOn: string, allowed: readonly string[], host: string, served: boolean];
const notation = (listensOn: string): Case => [listensOn, [], 'evil.example', false];
const cases: readonly Case[] = [
  [loopback, [], 'localhost', true],
  [loopback, [], 'LocalHost:3000', true],
  [loopback, [], 'localhost.:3000', true],
  [loopback, [], '127.0.0.1:3000', true],
  [loopback, [], '[::1]:3000', true],
  [loopback, [], '[::1]', true],
  [loopback, [], 'evil.example', false],
  [loopback, [], 'evil.example:3000', false],
  [loopback, [], 'localhost.evil.example', false],
  [loopback, [], 'evillocalhost', false],
  [loopback, [], '127.0.0.1.evil.example', false],
  [loopback, [], '10.0.0.1', false],
  [loopback, [], '[::2]', false],
  ['127.0.0.2', [], '127.0.0.2:3000', true],
  ['localhost', [], 'evil.example', false],
  ['::1', [], 'evil.example', false],
  ['::1', [], '[::1]:3000', true],
  ['::ffff:127.0.0.1', [], '[::ffff:127.0.0.1]:3000', true],
  ['::FFFF:127.0.0.1', [], '[::FFFF:127.0.0.1]', true],
  ['::ffff:127.0.0.1', [], '[::ffff:7f00:1]:3000', true],
  ['::ffff:127.0.0.1', [], '[::ffff:7f00:2]:3000', false],
  ['::ffff:127.0.0.1', [], '[::ffff:1.2.3.4]', false],
  ['0:0:0:0:0:0:0:1', [], '[0:0:0:0:0:0:0:1]:3000', true],
  ['0:0:0:0:0:0:0:1', [], '[::1]:3000', true],
  ['127.2', [], '127.2:3000', true],
  ['127.2', [], '127.0.0.2:3000', true],
  ['LOCALHOST', [], 'localhost:3000', true],
  ['Users.localhost', [], 'users.localhost:3000', true],
  ...['LocalHost', 'localhost.', '127.1', '2130706433', '0x7f000001', '0:0:0:0:0:0:0:1'].map(notation),
  ...['::ffff:127.0.0.1', '::FFFF:7f12:3456'].map(notation),
  ['::ffff:1.2.3.4', [], 'evil.example', true],
  ['::', [], 'evil.example', true],
  ['127.example', [], 'evil.example', true],
  ['10.0.0.127', [], 'evil.example', true],
  [loopback, ['users.example'], 'users.example', true],
  [loopback, ['users.example'], 'USERS.example:443', true],
  [loopback, ['Users.Example'], 'users.example', true],
  [loopback, ['users.example'], 'localhost', true],
  [loopback, ['users.example'], 'a.users.example', false],
  [loopback, ['users.example'], '10.0.0.1', false],
  [loopback, ['*'], 'evil.example', true],
  [anywhere, [], 'evil.example', true],
  [anywhere, ['users.example'], 'evil.example', false],
  [anywhere, ['users.example'], 'users.example', true],
  [anywhere, ['users.example'], 'localhost:3000', true],
  [anywhere, ['users.example'], '10.1.2.3:3000', true],
  [anywhere, ['users.example'], '[fd00::1]:3000', true],
  [anywhere, ['users.example'], '10.1.2.3.evil.example', false],
];

for (const [listensOn, allowed, host, served] of cases) {
  const names = allowed.length > 0 ? ` that allows ${allowed}` : '';
  test(`a service on ${listensOn}${names} ${served ? 'serves' : 'does not serve'} ${host}`, () => {
    const message = { headers: { host }, url: '/users' };
    const check = () => hostCheck(allowed, listensOn)?.(message as IncomingMessage);
    if (served) check();
    else assert.throws(check, { status: 421 });
  });
}

test('a host name that is not served returns 421 on every path, with the name of the option', async (t) => {
  const { port } = await startService(t, { allowedHosts: [] });
  for (const target of ['/users', '/', '/health', '/nowhere']) {
    const wire = await Wire.open(t, port);
    const response = await wire.write(`GET ${target} HTTP/1.1\r\nHost: evil.example\r\n\r\n`).next();
    const { error }: { error: string } = JSON.parse(response.body);
    assert.deepEqual(
      [response.status, error],
      [421, 'this host name is not served; allow it with --allowed-hosts'],
    );
  }
});

const targets: readonly [target: string, host: string, status: number][] = [
  ['http://evil.example/health', 'localhost', 421],
  ['HTTP://evil.example:80?x', 'localhost', 421],
  ['http://localhost/health', 'evil.example', 200],
  ['/health', 'localhost', 200],
  ['http://localhost@evil.example/health', 'localhost', 400],
  ['http://me@localhost/health', 'localhost', 400],
];
for (const [target, host, status] of targets) {
  test(`the host in the request target overrides Host: ${target} with ${host} returns ${status}`, async (t) => {
    const { port } = await startService(t, { allowedHosts: [] });
    const wire = await Wire.open(t, port);
    assert.equal((await wire.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\n\r\n`).next()).status, status);
  });
}

test('a service on an IPv4 address in the notation of IPv6 serves the address that it reports', async (t) => {
  const { http } = await startService(t, { allowedHosts: [], host: '::ffff:127.0.0.1' });
  const { host, port } = new URL(http);
  for (const name of [host, `[::ffff:127.0.0.1]:${port}`]) {
    const wire = await Wire.open(t, Number(port));
    const { status } = await wire.write(`GET /health HTTP/1.1\r\nHost: ${name}\r\n\r\n`).next();
    assert.equal(status, 200, name);
  }
});

test('a service on a name that resolves to a loopback address serves only its own names and addresses', async (t) => {
  const real = dns.lookup;
  const lookup = (name: string, ...rest: unknown[]) =>
    Reflect.apply(real, dns, [name === 'users.test' ? '127.0.0.2' : name, ...rest]);
  t.mock.method(dns, 'lookup', lookup);
  const { http } = await startService(t, { allowedHosts: [], host: 'users.test', tls: createCertificate() });
  const { port } = new URL(http);
  for (const [name, status] of [
    ['users.test', 200],
    ['127.0.0.2', 200],
    ['localhost', 200],
    ['evil.example', 421],
    ['10.0.0.1', 421],
  ] as const) {
    const options = { host: '127.0.0.2', port, headers: { host: name }, rejectUnauthorized: false };
    const [response] = await once(get({ ...options, path: '/health' }), 'response');
    response.resume();
    assert.equal(response.statusCode, status, name);
    assert.equal(response.headers['strict-transport-security'], undefined);
  }
});

test('HTTP/1.0 requests without Host are served', async (t) => {
  const { port } = await startService(t, { allowedHosts: [] });
  const wire = await Wire.open(t, port);
  assert.equal((await wire.write('GET /health HTTP/1.0\r\n\r\n').next()).status, 200);
});

test('a mounted listener serves every host name, or only those in allowedHosts', async (t) => {
  const repository = createMemoryStore();
  for (const [allowedHosts, status] of [
    [[], 200],
    [['users.example'], 421],
  ] as const) {
    const server = createServer(createRequestListener({ repository, allowedHosts, publicDir: false }));
    const { port } = await listen(t, server);
    const wire = await Wire.open(t, port);
    const request = 'GET /users HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n';
    assert.equal((await wire.write(request).next()).status, status);
  }
});
