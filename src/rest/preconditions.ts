import { DomainError, invalid, preconditionFailed } from '../domain/errors.ts';
import { parseEntityTags } from '../http/conditional.ts';
import type { HttpRequest } from '../http/request.ts';

// The opaque part of a record's strong ETag.
const versionPattern = /^[1-9][0-9]*$/;

/** Fails with `precondition-failed` unless If-Match, where there is one, takes this record (RFC 9110, 13.1.1). */
export function checkIfMatch(
  request: HttpRequest,
  record: string,
  { id, version }: { readonly id: number; readonly version: number },
): void {
  const versions = matchedVersions(request);
  if (versions !== undefined && !versions.includes(version)) throw preconditionFailed(record, id);
}

/**
 * The versions a change may overwrite. The store decides, because only it can distinguish 404 from 412 at
 * the moment of the change. `undefined` when any will do.
 */
export function expectedVersions(request: HttpRequest, required: boolean): readonly number[] | undefined {
  const unless = request.header('if-none-match');
  if (unless !== undefined) {
    // `*` asks that there be no such record yet, and nothing is ever created at an id: no version will do.
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
  // Tags that are weak or never were ours match nothing.
  return tags === '*' ? undefined : tags.strong.filter((tag) => versionPattern.test(tag)).map(Number);
}
