/** `*`, or the opaque tags of a list; weak ones kept apart because If-Match never takes them. */
export type EntityTags = '*' | { readonly strong: readonly string[]; readonly weak: readonly string[] };

// RFC 9110, 8.8.3: a tag is any visible character but the quote, Latin-1 bytes included.
const tagPattern = /^[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)")?[ \t]*(,|$)/;

/** Parses If-Match or If-None-Match; `undefined` when it is malformed. */
export function parseEntityTags(header: string): EntityTags | undefined {
  if (header.trim() === '*') return '*';
  const strong: string[] = [];
  const weak: string[] = [];
  let rest = header;
  while (rest !== '') {
    const found = tagPattern.exec(rest);
    if (found === null) return undefined;
    const [all, weakMark, tag] = found;
    if (tag !== undefined) (weakMark === undefined ? strong : weak).push(tag);
    rest = rest.slice(all.length);
  }
  return strong.length + weak.length === 0 ? undefined : { strong, weak };
}

/**
 * Whether If-None-Match says that the client has this representation already (weak comparison).
 * A malformed header is as none: the full answer is always right.
 */
export function isNotModified(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  const tags = parseEntityTags(ifNoneMatch);
  return tags === '*' || (tags !== undefined && (tags.strong.includes(tag) || tags.weak.includes(tag)));
}

/** What tells one version of a representation from another. */
export interface Validators {
  /** The opaque part of a strong entity tag. */
  readonly tag: string;
  readonly modified: Date;
}

interface HeaderSource {
  header(name: string): string | undefined;
}

/** What the conditions of a GET or HEAD make of it, in the order of RFC 9110, 13.2.2. */
export function evaluateConditions(
  request: HeaderSource,
  { tag, modified }: Validators,
): 'proceed' | 'not-modified' | 'failed' {
  const ifMatch = request.header('if-match');
  if (ifMatch !== undefined) {
    const tags = parseEntityTags(ifMatch);
    if (tags !== '*' && tags?.strong.includes(tag) !== true) return 'failed';
  } else if (wholeSeconds(modified) > parseDate(request.header('if-unmodified-since'))) {
    return 'failed';
  }
  const ifNoneMatch = request.header('if-none-match');
  if (ifNoneMatch !== undefined) return isNotModified(ifNoneMatch, tag) ? 'not-modified' : 'proceed';
  const since = parseDate(request.header('if-modified-since'));
  return wholeSeconds(modified) <= since && since <= Date.now() ? 'not-modified' : 'proceed';
}

/** Whether If-Range lets a range be sent: the client's part must be of this very version (13.1.5). */
export function isSameVersion(ifRange: string | undefined, { tag, modified }: Validators): boolean {
  return ifRange === undefined || ifRange === `"${tag}"` || ifRange === modified.toUTCString();
}

// RFC 9110, 5.6.7: three forms, all of which begin with the day's name. `Date.parse` knows them among
// many more, but takes the one without a zone, asctime, for local time.
const datePattern = /^[A-Z][a-z]{2,8},? [0-9A-Za-z: -]+$/;

// What is no date is NaN, to which every comparison says no.
function parseDate(header: string | undefined): number {
  if (header === undefined || !datePattern.test(header)) return Number.NaN;
  return Date.parse(header.endsWith(' GMT') ? header : `${header} GMT`);
}

// A date in a header has no fraction of a second.
function wholeSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1000) * 1000;
}
