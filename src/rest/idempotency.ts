import { createHash } from 'node:crypto';
import { invalid } from '../domain/errors.ts';
import type { IdempotencyKey } from '../domain/repository.ts';
import type { HttpRequest } from '../http/request.ts';

// The IETF draft's quoted string, or the bare token that most clients send.
const keyPattern = /^(?:"([\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x2b\x2d-\x7e]{1,255}))$/;

/** Reads Idempotency-Key; the fingerprint is of the path and of the parsed body. */
export function idempotencyKey(request: HttpRequest, draft: object): IdempotencyKey | undefined {
  const header = request.header('idempotency-key');
  if (header === undefined) return undefined;
  const found = keyPattern.exec(header);
  const key = found?.[1] ?? found?.[2];
  if (key === undefined) throw invalid('Idempotency-Key', 'must be 1 to 255 visible ASCII characters');
  const content = `${request.method} ${request.target.path}\n${JSON.stringify(draft)}`;
  return { key, fingerprint: createHash('sha256').update(content).digest('base64url') };
}

/** Tells a replayed answer from a first one. */
export function replayedHeader(replayed: boolean) {
  return replayed ? { 'idempotency-replayed': 'true' } : {};
}
