import { createHash, timingSafeEqual } from 'node:crypto';
import { DomainError } from './errors.ts';

/** Which calls on users and posts need a key. */
export const authModes = ['none', 'writes', 'all'] as const;
export type AuthMode = (typeof authModes)[number];

const keyPattern = /^[\x21-\x7e]+$/;

/** Who may do what: the configured keys, and when one is asked for. Both faces share it. */
export class Access {
  readonly mode: AuthMode;
  readonly #digests: readonly Buffer[];

  /** Throws on a mode that is none and on a key no header can carry: either would let in whoever comes. */
  constructor(mode: AuthMode, keys: readonly string[]) {
    if (!authModes.includes(mode)) throw new TypeError(`auth must be one of ${authModes.join(', ')}`);
    if (!keys.every((key) => keyPattern.test(key))) {
      throw new TypeError('apiKeys must hold keys of visible ASCII characters, none of them empty');
    }
    this.mode = mode;
    this.#digests = keys.map(digest);
  }

  /** Fails with `unauthenticated` when the mode asks for a key and this is none of them. */
  check(kind: 'read' | 'write', presented: string | undefined): void {
    if (this.mode === 'all' || (this.mode === 'writes' && kind === 'write')) this.require(presented);
  }

  /** Fails with `unauthenticated` unless this is one of the keys; with none configured, always. */
  require(presented: string | undefined): void {
    if (presented === undefined) throw new DomainError('unauthenticated', 'x-api-key is required');
    const given = digest(presented);
    let found = false;
    // Digests are of one length, and every one is compared: the time taken tells nothing of a key.
    for (const known of this.#digests) found = timingSafeEqual(known, given) || found;
    if (!found) throw new DomainError('unauthenticated', 'x-api-key is not a valid key');
  }
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
