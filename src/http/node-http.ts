import { createRequire } from 'node:module';

// Built-in modules resolve from any path. A bundler may remove `import.meta.url`.
const require = createRequire('/');

/** Loaded by `require`: an import reads all exports, and reading `WebSocket` makes a start a quarter longer. */
export const http: typeof import('node:http') = require('node:http');

// Loaded when they are first used: the first two take a tenth of a start each, and the last one a twentieth.
export const loadHttps = (): typeof import('node:https') => require('node:https');
export const loadTls = (): typeof import('node:tls') => require('node:tls');
export const loadCrypto = (): typeof import('node:crypto') => require('node:crypto');
