import { createRequire } from 'node:module';
import { DomainError } from './errors.ts';

const require = createRequire('/');
let crypto: typeof import('node:crypto') | undefined;
/** `node:crypto`, loaded with the first key, because it takes a twentieth of a start. */
export function loadCrypto(): typeof import('node:crypto') {
  crypto ??= require('node:crypto') as typeof import('node:crypto');
  return crypto;
}

/** Which requests for users and posts need a key. */
export const authModes = ['none', 'writes', 'all'] as const;
export type AuthMode = (typeof authModes)[number];

export const scopes = ['read', 'write', 'metrics'] as const;
export type Scope = (typeof scopes)[number];

/** The key that a request needs: `key` is any key in every mode. Whether a scope needs one depends on the mode. */
export type Need = Scope | 'key';

export interface Key {
  /** The name of the key in logs, metrics and events. */
  readonly name: string | undefined;
  readonly scopes: readonly Scope[];
  readonly digest: Buffer;
}

export const secretPattern = /^[\x21-\x7e]+$/;
const namedPattern = /^([\w.-]{1,64}):([^=:/]*)=(.*)$/;
// A part of a list whose scopes were joined by a comma, or a key without its secret.
const unfinishedPattern = new RegExp(`^(?:[\\w.-]{1,64}:)?(?:${scopes.join('|')})(?:[+=]|$)`, 'i');
const digestPattern = /^sha256:(?:([0-9a-f]{64})$)?/i;

/**
 * Parses `secret`, which has all scopes, or `name:read+write=secret`. The secret may be `sha256:` and its digest.
 * Throws a `TypeError`, also for the secret of an earlier key, whose scopes may differ. The message has no secret. Adds
 * the digest of the key to `digests`.
 */
export function parseKey(text: string, digests = new Set<string>()): Key {
  const [, name, list = '', secret = text] = namedPattern.exec(text) ?? [];
  if (!secretPattern.test(secret)) {
    throw new TypeError('an API key must consist of visible ASCII characters');
  }
  // Everyone could guess this secret, which would have all scopes.
  if (name === undefined && unfinishedPattern.test(text)) {
    throw new TypeError('an API key with scopes must be NAME:SCOPES=KEY, its scopes joined by +');
  }
  const given = name === undefined ? scopes : list.split('+');
  const known = scopes.filter((scope) => given.includes(scope));
  // A misspelt scope must not turn the whole text into a secret with all scopes.
  if (known.length !== given.length) {
    throw new TypeError(`an API key with a name must have scopes of ${scopes.join(', ')}, joined by +`);
  }
  const [prefix, hex] = digestPattern.exec(secret) ?? [];
  // A mistyped digest must not become a secret: everyone who can read the configuration would know it.
  if (prefix !== undefined && hex === undefined) {
    throw new TypeError('an API key must have 64 hexadecimal digits after sha256:');
  }
  const digest = hex?.toLowerCase() ?? loadCrypto().hash('sha256', secret);
  if (digests.has(digest)) {
    throw new TypeError('each API key must have a different secret');
  }
  digests.add(digest);
  return { name, scopes: known, digest: Buffer.from(digest, 'hex') };
}

export function parseKeys(texts: readonly string[], digests = new Set<string>()): readonly Key[] {
  // Each character of a text would become a key.
  if (!Array.isArray(texts)) throw new TypeError('API keys must be a list');
  return Array.from(texts, (text) => parseKey(text, digests));
}

/** The configured keys, and which requests need one, for both APIs. */
export class Access {
  readonly #mode: AuthMode;
  #keys: readonly Key[];

  constructor(mode: AuthMode, keys: readonly string[]) {
    this.#mode = mode;
    this.#keys = parseKeys(keys);
  }

  /** Replaces all keys, from the next request on. Throws on a malformed key without changing anything. */
  setKeys(keys: readonly string[]): void {
    this.#keys = parseKeys(keys);
  }

  /** Whether callers without a key are served. */
  isOpen(need: Need): boolean {
    return need !== 'key' && (this.#mode === 'none' || (this.#mode === 'writes' && need === 'read'));
  }

  /** Fails with `unauthenticated` or `forbidden`. Identifies a known key first, so that the log names it. */
  check(need: Need, presented: string | undefined, identify: (name: string) => void): void {
    if (this.isOpen(need)) return;
    if (presented === undefined) throw new DomainError('unauthenticated', 'x-api-key is required');
    const { hash, timingSafeEqual } = loadCrypto();
    const given = hash('sha256', presented, 'buffer');
    let found: Key | undefined;
    // Compare all digests, which have one length, so that the time reveals nothing about a key.
    for (const key of this.#keys) if (timingSafeEqual(key.digest, given)) found = key;
    if (found === undefined) throw new DomainError('unauthenticated', 'x-api-key is not a valid key');
    if (found.name !== undefined) identify(found.name);
    if (need !== 'key' && !found.scopes.includes(need)) {
      throw new DomainError('forbidden', `this key has no ${need} scope`);
    }
  }
}
