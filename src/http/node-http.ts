import type { Server } from 'node:http';
import type { Server as SecureServer } from 'node:https';
import { createRequire } from 'node:module';

// What is Node's own is found from anywhere, also where a bundler has left no `import.meta.url`.
const require = createRequire('/');

/**
 * `node:http` by `require`: an import reads all that a module exports, and with its WebSocket loads a
 * whole HTTP client. A start took a quarter longer.
 */
export const http: typeof import('node:http') = require('node:http');

/** `node:https`, loaded only with a certificate, because it takes a tenth of a start. */
export function loadHttps(): typeof import('node:https') {
  return require('node:https');
}

export function isSecure(server: Server): server is SecureServer {
  return 'setSecureContext' in server;
}
