import { DomainError, invalid, preconditionFailed } from '../domain/errors.ts';
import { parseEntityTags } from '../http/conditional.ts';
import type { HttpRequest } from '../http/request.ts';

// The opaque part of the strong ETag of a record.
const versionPattern = /^[1-9][0-9]*$/;

/** Fails with `precondition-failed` if If-Match is present and does not match this record (RFC 9110, 13.1.1). */
export function checkIfMatch(
  request: HttpRequest,
  record: string,
  { id, version }: { readonly id: number; readonly version: number },
): void {
  const versions = matchedVersions(request);
  if (versions !== undefined && !versions.includes(version)) throw preconditionFailed(record, id);
}

/**
 * The versions that a change may overwrite; `undefined` for any version. The store compares them, because only it can
 * distinguish 404 from 412 at the moment of the change.
 */
export function expectedVersions(request: HttpRequest, required: boolean): readonly number[] | undefined {
  const unless = request.header('if-none-match');
  if (unless !== undefined) {
    // `*` requires that the record does not exist. No request creates a record with a given id: no version matches.
    if (unless.trim() === '*') return [];
    throw invalid('If-None-Match', 'must be * in a change; use If-Match');
  }
  if (required && request.header('if-match') === undefined) {
    throw new DomainError('precondition-required', 'If-Match is required');
  }
  return matchedVersions(request);
}

function matchedVersions(request: HttpRequest): readonly number[] | undefined {
  const header = request.header('if-match');
  if (header === undefined) return undefined;
  const tags = parseEntityTags(header);
  if (tags === undefined) throw invalid('If-Match', 'must be * or a list of entity tags such as "1"');
  // Weak tags, and tags that this service never sent, match nothing.
  return tags === '*' ? undefined : tags.strong.filter((tag) => versionPattern.test(tag)).map(Number);
}
