import { loadCrypto } from '../domain/access.ts';
import { DomainError, invalid } from '../domain/errors.ts';
import { positivePattern } from '../domain/record.ts';
import type { IdempotencyKey } from '../domain/repository.ts';
import { parseEntityTags } from '../http/conditional.ts';
import type { HttpRequest } from '../http/request.ts';

/** The versions that a change may overwrite; `undefined` for any. Only the store can compare them when it changes. */
export function expectedVersions(request: HttpRequest, required: boolean): readonly number[] | undefined {
  const ifNoneMatch = request.header('if-none-match');
  if (ifNoneMatch !== undefined) {
    // `*` requires that the record does not exist. No request creates a record with a given id: no version matches.
    if (ifNoneMatch.trim() === '*') return [];
    throw invalid('If-None-Match', 'must be * in a change; use If-Match');
  }
  const ifMatch = request.header('if-match');
  if (ifMatch !== undefined) return matchedVersions(ifMatch);
  if (required) throw new DomainError('precondition-required', 'If-Match is required');
  return undefined;
}

/** The versions in If-Match (RFC 9110, 13.1.1); `undefined` for any version. */
export function matchedVersions(ifMatch: string): readonly number[] | undefined {
  const tags = parseEntityTags(ifMatch);
  if (tags === undefined) throw invalid('If-Match', 'must be * or a list of entity tags such as "1"');
  // The tag of a record is its version. Weak tags, and tags that this service never sent, match nothing.
  const texts = tags === '*' ? undefined : tags.map((tag) => tag.slice(1, -1));
  return texts?.filter((text) => positivePattern.test(text)).map(Number);
}

// The string of RFC 8941, 3.3.3, as in the IETF draft, or the bare token that most clients send. Two whole
// keys, joined by a comma and a space as repeated headers are, match neither.
const quotedPattern = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/;
const barePattern = /^[\x21\x23-\x2b\x2d-\x7e]+$/;
const maxKeyLength = 255;

/** Reads Idempotency-Key. The fingerprint uses the decoded path and the parsed body, to ignore their spelling. */
export function idempotencyKey(request: HttpRequest, draft: object): IdempotencyKey | undefined {
  const header = request.header('idempotency-key');
  if (header === undefined) return undefined;
  const quoted = quotedPattern.exec(header)?.[1]?.replace(/\\(.)/g, '$1');
  const key = quoted ?? (barePattern.test(header) ? header : '');
  if (key === '' || key.length > maxKeyLength) {
    throw invalid('Idempotency-Key', `must be one string of 1 to ${maxKeyLength} ASCII characters`);
  }
  const content = JSON.stringify([request.method, request.template, request.params, draft]);
  // Separates the keys of different clients: headers cannot contain a line break.
  const scoped = request.keyName === undefined ? key : `${request.keyName}\n${key}`;
  return { key: scoped, fingerprint: loadCrypto().hash('sha256', content, 'base64url') };
}
