import { createHash } from 'node:crypto';
import { invalid } from '../domain/errors.ts';
import type { IdempotencyKey } from '../domain/repository.ts';
import type { HttpRequest } from '../http/request.ts';

// The string of RFC 8941, 3.3.3, as in the IETF draft, or the bare token that most clients send. Neither can contain
// the comma and space that join repeated headers.
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
  return { key: scoped, fingerprint: createHash('sha256').update(content).digest('base64url') };
}

/** The header that marks a replayed response. */
export function replayedHeader(replayed: boolean) {
  return replayed ? { 'idempotency-replayed': 'true' } : {};
}
