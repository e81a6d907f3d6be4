import { createServer, type Server, type Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { loadCrypto, loadTls } from './node-http.ts';

/** Certificate chain and private key, in PEM. */
export interface TlsOptions {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

// Mozilla's intermediate profile. Node also allows CBC suites, which were attacked too often.
const settings = Object.freeze({
  minVersion: 'TLSv1.2',
  ciphers: [
    'TLS_AES_128_GCM_SHA256',
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ].join(':'),
} as const);
// A handshake of TLS 1.3 makes 5 keys, and a change of them that the client requests 2. Clients change them rarely.
const maxKeys = 1_000;
// As the HTTP API by default. Node would wait for two minutes.
const handshakeTimeoutMs = 10_000;

/** Adds our settings. Throws without a certificate or a key: Node.js would listen, and then fail every handshake. */
export function tlsOf(pair: TlsOptions): TlsOptions {
  const tls = { ...settings, ...pair };
  if (!tls.cert || !tls.key) throw new TypeError('tls must be { cert, key }, both in PEM');
  return tls;
}

/** Throws unless the pair can be used. OpenSSL accepts a key of another algorithm, and then fails every handshake. */
export function checkPair(tls: TlsOptions & { readonly passphrase?: string }): void {
  loadTls().createSecureContext(tls);
  // Not typed, but Node.js accepts arrays with a pair for each algorithm.
  if (Array.isArray(tls.cert) || Array.isArray(tls.key)) return;
  const { createPrivateKey, X509Certificate } = loadCrypto();
  if (!new X509Certificate(tls.cert).checkPrivateKey(createPrivateKey(tls)))
    throw new Error('the key has another algorithm than the certificate');
}

export function certificatesOf({ cert }: TlsOptions) {
  const { X509Certificate } = loadCrypto();
  const blocks = String(cert).match(/-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----[^-]+-----END \1-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

export function isSecure(server: Server): server is TlsServer {
  return 'setSecureContext' in server;
}

/** A server for connections of HTTP/2, which it emits as `connection`, or with TLS as `secureConnection`. */
export function createHttp2Port(tls: TlsOptions | undefined): Server {
  const noDelay = true;
  if (tls === undefined) return createServer({ noDelay });
  const protocols = { ALPNProtocols: ['h2'], handshakeTimeout: handshakeTimeoutMs };
  const server = loadTls().createServer({ ...tls, ...protocols, noDelay });
  limitKeys(server);
  return server.on('tlsClientError', (_error, socket) => socket.destroy());
}

/** Closes a connection whose client changes its keys all the time (RFC 8446, 4.6.3), which would stall the event loop. */
export function limitKeys(server: Server): void {
  const counts = new WeakMap<Socket, number>();
  server.on('keylog', (_line: Buffer, socket: Socket) => {
    const count = (counts.get(socket) ?? 0) + 1;
    counts.set(socket, count);
    if (count > maxKeys) socket.destroy();
  });
}
