import { DomainError, invalid } from '../domain/errors.ts';
import { parseEntityTags } from '../http/conditional.ts';
import type { HttpRequest } from '../http/request.ts';

const versionPattern = /^[1-9][0-9]*$/;

/** The opaque part of a user's strong ETag. */
export function entityTag(version: number): string {
  return String(version);
}

/**
 * The versions that If-Match lets a change overwrite, for the store to decide on; `undefined` when
 * any will do. Tags that are weak or never were ours match nothing, but leave the decision between
 * 404 and 412 to the store.
 */
export function expectedVersions(request: HttpRequest, required: boolean): readonly number[] | undefined {
  if (request.header('if-none-match') !== undefined) {
    throw invalid('If-None-Match', 'is for GET and HEAD; use If-Match');
  }
  const header = request.header('if-match');
  if (header === undefined) {
    if (required) throw new DomainError('precondition-required', 'If-Match is required');
    return undefined;
  }
  const tags = parseEntityTags(header);
  if (tags === undefined) throw invalid('If-Match', 'must be * or a list of entity tags such as "1"');
  return tags === '*' ? undefined : tags.strong.filter((tag) => versionPattern.test(tag)).map(Number);
}
