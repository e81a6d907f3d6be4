import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { Agent, get, type RequestOptions } from 'node:https';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { credentials, status } from '@grpc/grpc-js';
import { createService } from '../../src/service/service.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { type Certificate, createCertificate } from '../support/certificate.ts';
import { gatedRepository } from '../support/gated.ts';
import { callWire, framed, openCall } from '../support/grpc-wire.ts';
import { type StartOptions, startService } from '../support/service.ts';

const first = createCertificate('first');
const second = createCertificate('second');
const { privateKey: otherKey } = generateKeyPairSync('ed25519', {
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});

async function start(t: TestContext, options: StartOptions = {}) {
  const running = await startService(t, { tls: first, grpcPort: 0, ...options });
  const grpcPort = Number(running.grpc.split(':')[1]);
  return { ...running, grpcPort };
}

/** The status and the name in the certificate, for a client that trusts only this certificate. */
async function getOver(url: string, trusted: Certificate, options: RequestOptions = {}) {
  const request = get(`${url}/health`, { ca: trusted.cert, agent: false, ...options });
  const [response] = await once(request, 'response');
  const { subject } = response.socket.getPeerCertificate();
  await response.resume().toArray();
  return [response.statusCode, subject.CN];
}

/** A gRPC client that trusts only this certificate. */
function clientOver(t: TestContext, address: string, { cert }: Certificate) {
  // Connect by name: grpc-js (1.14.7) sends the host as server name, and TLS does not allow an address there.
  const name = address.replace('127.0.0.1', 'localhost');
  return usersClient(t, name, {}, credentials.createSsl(Buffer.from(cert)));
}

/** An HTTP/2 connection, over an open connection if there is one. */
function connectGrpc(t: TestContext, port: number, socket?: TLSSocket): ClientHttp2Session {
  const session = connectHttp2(`https://localhost:${port}`, {
    rejectUnauthorized: false,
    ...(socket !== undefined && { createConnection: () => socket }),
  });
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  return session;
}

async function peerName(t: TestContext, port: number): Promise<string> {
  const options = { ALPNProtocols: ['h2'], rejectUnauthorized: false };
  const socket: TLSSocket = connectTls({ port, host: '127.0.0.1', ...options });
  t.after(() => socket.destroy());
  await once(socket, 'secureConnect');
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

// Some wait for a time limit, so two run at a time. All at once would take too long for handshakes on a slow machine.
describe('with a certificate', { concurrency: 2 }, () => {
  it('a gRPC connection without a handshake is closed long before two minutes', async (t) => {
    const { grpcPort } = await start(t);
    const silent = connect(grpcPort, '127.0.0.1').resume();
    t.after(() => silent.destroy());
    await once(
      silent.on('error', () => undefined),
      'close',
      { signal: AbortSignal.timeout(60_000) },
    );
  });

  it('both APIs use TLS, and the address starts with https', async (t) => {
    const { http, grpc } = await start(t);
    assert.match(http, /^https:/);
    assert.deepEqual(await getOver(http, first), [200, 'first']);
    assert.equal((await getUser(clientOver(t, grpc, first), 1)).code, status.NOT_FOUND);
  });

  it('a client that does not trust the certificate cannot connect', async (t) => {
    const { http, grpc } = await start(t);
    await assert.rejects(getOver(http, second), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    const client = clientOver(t, grpc, second);
    const { code, details } = await getUser(client, 1, { deadline: Date.now() + 60_000 });
    assert.equal(code, status.UNAVAILABLE);
    assert.match(details, /self-signed certificate/);
  });

  it('connections that send nothing do not delay close', async (t) => {
    const { service, http, port, grpcPort } = await start(t, { timeouts: { headersTimeoutMs: 60_000 } });
    for (const to of [port, grpcPort]) {
      const silent = connect(to, '127.0.0.1');
      await once(silent.resume(), 'connect');
    }
    // The service accepts connections in their order.
    await once(connectGrpc(t, grpcPort), 'remoteSettings');
    assert.deepEqual(await getOver(http, first), [200, 'first']);
    const startedAt = performance.now();
    await service.close({ timeoutMs: 30_000 });
    assert.ok(performance.now() - startedAt < 20_000);
  });

  /** Closes a service during the handshake of a gRPC connection, which `use` then uses. Resolves when the service has closed. */
  const closeDuringHandshake = async (
    t: TestContext,
    use: (late: ClientHttp2Session) => Promise<unknown>,
  ) => {
    const { service, grpcPort } = await start(t, { drainIdleMs: 5_000 });
    const socket = connect(grpcPort, '127.0.0.1');
    await once(socket, 'connect');
    const [client, wire] = duplexPair();
    const secure = connectTls({ socket: client, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
    const [hello]: Buffer[] = await once(wire, 'data');
    assert.ok(hello);
    socket.write(hello.subarray(0, 50));
    const early = connectGrpc(t, grpcPort);
    await once(early, 'remoteSettings');
    const closed = service.close({ timeoutMs: 30_000 });
    await once(early, 'close');
    socket.write(hello.subarray(50));
    wire.pipe(socket).pipe(wire);
    const startedAt = performance.now();
    await use(connectGrpc(t, grpcPort, secure));
    await closed;
    assert.ok(performance.now() - startedAt < 20_000);
  };

  it('a gRPC connection whose handshake ends while the service stops is asked to close after a call', (t) =>
    closeDuringHandshake(t, async (late) => {
      const { code } = await callWire(late, '/Users/GetUser', framed(Uint8Array.of(8, 1)));
      assert.equal(code, status.NOT_FOUND);
    }));

  it('a gRPC connection whose handshake ends while the service stops is asked to close without a call', (t) =>
    closeDuringHandshake(t, (late) => once(late, 'remoteSettings')));

  it('a gRPC connection whose handshake ends while the service stops is asked to close during a watch', (t) =>
    closeDuringHandshake(t, async (late) => {
      const watch = openCall(late, '/grpc.health.v1.Health/Watch').on('error', () => undefined);
      watch.end(framed(new Uint8Array()));
      await once(watch, 'response');
    }));

  it('a client without TLS is rejected, and others are served', async (t) => {
    const { http, port, grpcPort, events } = await start(t);
    for (const to of [port, grpcPort]) {
      const socket = connect(to, '127.0.0.1');
      socket.on('error', () => undefined).resume();
      socket.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(socket, 'close');
    }
    assert.deepEqual(await getOver(http, first), [200, 'first']);
    // Without this event, the log would have no trace of the client. The gRPC library does not report such clients.
    assert.deepEqual(
      events.filter(({ type }) => type === 'refused'),
      [{ type: 'refused', face: 'http', status: 400, reason: 'TLS failed: http request' }],
    );
  });

  it('close waits for a request, but not for incomplete handshakes', async (t) => {
    const { repository, entered, open } = await gatedRepository();
    const { service, http, port, grpcPort } = await start(t, {
      repository,
      timeouts: { headersTimeoutMs: 60_000 },
    });
    const sockets = await Promise.all(
      [port, grpcPort].map(async (to) => {
        const socket = connect(to, '127.0.0.1');
        await once(socket, 'connect');
        // The start of a handshake that never continues.
        socket.on('error', () => undefined).write(Buffer.from('160301', 'hex'));
        return socket.resume();
      }),
    );
    // The service accepts connections in their order.
    await once(connectGrpc(t, grpcPort), 'remoteSettings');
    assert.deepEqual(await getOver(http, first), [200, 'first']);
    const gone = sockets.map((socket) => once(socket, 'close'));
    const slow = get(`${http}/users/1`, { ca: first.cert, agent: false });
    await entered;
    const startedAt = performance.now();
    const closing = service.close({ timeoutMs: 30_000 });
    await gone[0];
    open();
    const [response] = await once(slow, 'response');
    assert.equal(response.resume().statusCode, 200);
    await closing;
    assert.ok(performance.now() - startedAt < 20_000);
    await Promise.all(gone);
  });
});

it('a service does not start with a key of another algorithm than the certificate', async (t) => {
  const tls = { cert: first.cert, key: otherKey };
  const service = createService({ port: 0, grpcPort: 0, database: 'memory:', tls });
  t.after(() => service.close());
  await assert.rejects(service.listen(), { name: 'StartError', option: 'tls', message: /another algorithm/ });
});

it('a service starts with an encrypted key and its passphrase', async (t) => {
  const [cipher, passphrase] = ['aes-256-cbc', 'secret'];
  const key = createPrivateKey(first.key).export({ type: 'pkcs8', format: 'pem', cipher, passphrase });
  // Our types lack the passphrase, but Node.js accepts it.
  const tls = { cert: first.cert, key, passphrase };
  const service = createService({ port: 0, grpcPort: 0, database: 'memory:', tls });
  t.after(() => service.close());
  const { http } = await service.listen();
  assert.deepEqual(await getOver(http, first), [200, 'first']);
});

describe('a new certificate', () => {
  it('is used by new connections of both APIs, while open ones stay open', async (t) => {
    const { service, http, grpc, grpcPort } = await start(t);
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: first.cert });
    t.after(() => agent.destroy());
    const client = clientOver(t, grpc, first);
    assert.deepEqual(await getOver(http, first, { agent }), [200, 'first']);
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND);

    service.setTls(second);
    assert.deepEqual(await getOver(http, first, { agent }), [200, 'first'], 'the open connection');
    assert.equal((await getUser(client, 1)).code, status.NOT_FOUND, 'the open channel');
    assert.deepEqual(await getOver(http, second), [200, 'second']);
    assert.equal((await getUser(clientOver(t, grpc, second), 1)).code, status.NOT_FOUND);
    assert.equal(await peerName(t, grpcPort), 'second');
  });

  it('is in the metrics with the earliest end of its chain', async (t) => {
    const { service } = await start(t);
    const end = () => /^users_service_certificate_expiry_time_seconds (\d+)$/m.exec(service.metrics())?.[1];
    const endOf = ({ cert }: Certificate) => String(new X509Certificate(cert).validToDate.getTime() / 1000);
    assert.equal(end(), endOf(first));
    const [long, short] = [createCertificate('long', 3), createCertificate('short', 2)];
    service.setTls({ cert: long.cert, key: long.key });
    assert.equal(end(), endOf(long));
    service.setTls({ cert: Buffer.from(`${long.cert}${short.cert}`), key: long.key });
    assert.equal(end(), endOf(short));
    assert.throws(() => service.setTls({ cert: first.cert, key: long.key }));
    assert.equal(end(), endOf(short));
  });

  it('stays in use by gRPC, so that a client that connects again can resume its session', async (t) => {
    const { service, grpcPort } = await start(t);
    await peerName(t, grpcPort);
    service.setTls(second);
    const options = { port: grpcPort, host: '127.0.0.1', ALPNProtocols: ['h2'], rejectUnauthorized: false };
    const earlier = connectTls(options);
    t.after(() => earlier.destroy());
    const [session] = await once(earlier, 'session');
    const later = connectTls({ ...options, session });
    t.after(() => later.destroy());
    await once(later, 'secureConnect');
    assert.equal(later.isSessionReused(), true);
  });

  it('is also used by gRPC when it was set before the first call', async (t) => {
    const { service, grpc } = await start(t);
    service.setTls(second);
    assert.equal((await getUser(clientOver(t, grpc, second), 1)).code, status.NOT_FOUND);
  });

  it('is used by both APIs when it was set before they were opened', async (t) => {
    const service = createService({
      ...{ port: 0, grpcPort: 0, database: 'memory:', tls: first, drainIdleMs: 0 },
    });
    t.after(() => service.close());
    service.setTls(second);
    const { http, grpc } = await service.listen();
    assert.deepEqual(await getOver(http.replace('127.0.0.1', 'localhost'), second), [200, 'second']);
    assert.equal(await peerName(t, Number(grpc?.split(':')[1])), 'second');
  });

  const bad: [name: string, pair: Certificate, message: RegExp][] = [
    ['no PEM', { cert: 'x', key: first.key }, /PEM/],
    ['no key', { cert: first.cert, key: '' }, /^TypeError: tls must be/],
    ["another's key", { cert: first.cert, key: second.key }, /mismatch/],
    [
      'a key of another algorithm',
      { cert: first.cert, key: otherKey },
      /^Error: the key has another algorithm/,
    ],
  ];
  for (const [name, pair, message] of bad) {
    it(`with ${name} is rejected by both APIs, which keep the old one`, async (t) => {
      const { service, http, grpc, grpcPort } = await start(t);
      assert.equal((await getUser(clientOver(t, grpc, first), 1)).code, status.NOT_FOUND);
      assert.throws(() => service.setTls(pair), message);
      assert.deepEqual(await getOver(http, first), [200, 'first']);
      assert.equal(await peerName(t, grpcPort), 'first');
    });
  }

  for (const label of ['X509 CERTIFICATE', 'TRUSTED CERTIFICATE'])
    it(`has its end in the metrics if its PEM is a ${label}`, async (t) => {
      const { service } = await start(t);
      service.setTls({ ...second, cert: second.cert.replaceAll('CERTIFICATE', label) });
      assert.match(service.metrics(), /^users_service_certificate_expiry_time_seconds \d+$/m);
    });

  it('is rejected by a service without TLS', async (t) => {
    const { service } = await startService(t);
    assert.throws(() => service.setTls(first), /has no TLS/);
    assert.doesNotMatch(service.metrics(), /^users_service_certificate/m);
  });
});

describe('the HTTP port, by the protocols that a client offers,', () => {
  const offers: readonly (readonly [offered: string[], chosen: string | false | undefined])[] = [
    [['h2', 'http/1.1', 'http/1.0'], 'http/1.1'],
    [['http/1.0'], 'http/1.0'],
    [[], false],
    [['h2'], undefined],
  ];
  // A host may use the same object for its HTTP/2 server.
  const tls = { ...first, ALPNProtocols: ['h2'] };
  for (const [offered, chosen] of offers) {
    it(`${chosen === undefined ? 'rejects' : 'accepts'} ${offered.join() || 'none'}`, async (t) => {
      const { port } = await start(t, { tls });
      const socket = connectTls({ port, ALPNProtocols: offered, rejectUnauthorized: false });
      t.after(() => socket.destroy());
      if (chosen === undefined) {
        await assert.rejects(once(socket, 'secureConnect'), /no application protocol/);
        return;
      }
      await once(socket, 'secureConnect');
      assert.equal(socket.alpnProtocol, chosen);
      socket.write('GET /health HTTP/1.0\r\n\r\n');
      assert.match(String(Buffer.concat(await socket.toArray())), /^HTTP\/1\.1 200 OK/);
    });
  }
});

describe('both ports accept only current versions of TLS', () => {
  const offers: readonly (readonly [what: string, options: ConnectionOptions, accepted: boolean])[] = [
    ...['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'].map(
      (ciphers) => [`TLS 1.3 with ${ciphers}`, { minVersion: 'TLSv1.3', ciphers }, true] as const,
    ),
    ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map((suite) => {
      const ciphers = `ECDHE-ECDSA-${suite}`;
      return [`TLS 1.2 with ${ciphers}`, { maxVersion: 'TLSv1.2', ciphers }, true] as const;
    }),
    ['TLS 1.2 with CBC', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE+AES:!AESGCM:!AESCCM' }, false],
    ['TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }, false],
  ];
  for (const [what, options, accepted] of offers) {
    it(`${what} is ${accepted ? 'accepted' : 'rejected'}, also after a new certificate`, async (t) => {
      const { service, port, grpcPort } = await start(t);
      for (const round of ['before', 'after']) {
        for (const at of [port, grpcPort]) {
          const socket = connectTls({
            port: at,
            host: '127.0.0.1',
            ALPNProtocols: at === port ? ['http/1.1'] : ['h2'],
            rejectUnauthorized: false,
            ...options,
          });
          const outcome = await once(socket, 'secureConnect').then(
            () => true,
            () => false,
          );
          socket.destroy();
          assert.equal(outcome, accepted, `${round} on ${at === port ? 'HTTP' : 'gRPC'}`);
        }
        service.setTls(second);
      }
    });
  }
});
