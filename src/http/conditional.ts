/** `*`, or the opaque tags of a list; weak ones kept apart because If-Match never takes them. */
export type EntityTags = '*' | { readonly strong: readonly string[]; readonly weak: readonly string[] };

// RFC 9110, 8.8.3: a tag is any visible character but the quote, Latin-1 bytes included.
// Sticky: it goes on where the last match ended.
const tagPattern = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)")?[ \t]*(,|$)/y;
// Far more than any client keeps of one resource; empty members count too.
const maxTags = 100;

/** Parses If-Match or If-None-Match; `undefined` when it is malformed or too long. */
export function parseEntityTags(header: string): EntityTags | undefined {
  if (header.trim() === '*') return '*';
  const strong: string[] = [];
  const weak: string[] = [];
  tagPattern.lastIndex = 0;
  for (let members = 0; tagPattern.lastIndex < header.length; members += 1) {
    const found = members < maxTags ? tagPattern.exec(header) : null;
    if (found === null) return undefined;
    const [, weakMark, tag] = found;
    if (tag !== undefined) (weakMark === undefined ? strong : weak).push(tag);
  }
  return strong.length + weak.length === 0 ? undefined : { strong, weak };
}

/**
 * Whether If-None-Match says that the client has this representation already (weak comparison).
 * A malformed header is as none: the full answer is always right.
 */
export function isNotModified(ifNoneMatch: string, tag: string): boolean {
  const tags = parseEntityTags(ifNoneMatch);
  return tags === '*' || (tags !== undefined && (tags.strong.includes(tag) || tags.weak.includes(tag)));
}

/** What distinguishes two versions of a representation. */
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

/** The bytes from `start` to `end`, both included. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

const rangePattern = /^bytes=[ \t]*(?:([0-9]+)-([0-9]+)?|-([0-9]+))[ \t]*$/i;

/**
 * Reads a Range header (RFC 9110, 14.2) against a size in bytes. Several ranges, another unit or a
 * malformed one count as none: the whole is then the right answer.
 */
export function parseRange(
  header: string | undefined,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const found = header === undefined ? null : rangePattern.exec(header);
  if (found === null) return undefined;
  const [, first, last, suffix] = found;
  if (suffix !== undefined) {
    if (Number(suffix) === 0 || size === 0) return 'unsatisfiable';
    return { start: Math.max(size - Number(suffix), 0), end: size - 1 };
  }
  const start = Number(first);
  if (last !== undefined && Number(last) < start) return undefined;
  if (start >= size) return 'unsatisfiable';
  return { start, end: Math.min(Number(last ?? size), size - 1) };
}

/**
 * The weights of an Accept or Accept-Encoding header by what they weigh, in lower case (RFC 9110,
 * 12.4.2): 1 without a `q`, NaN where it is no number, which compares as neither more nor less.
 */
export function parseWeights(header: string): Map<string, number> {
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(',')) {
    const [value = '', ...parameters] = part.split(';').map((text) => text.trim());
    const q = parameters.find((text) => text.startsWith('q='));
    weights.set(value, q === undefined ? 1 : Number(q.slice(2)));
  }
  return weights;
}

/**
 * The coding on offer that an Accept-Encoding header likes best (RFC 9110, 12.5.3), the server's order
 * deciding between equals; `undefined` for the identity, which is always an answer.
 */
export function chooseEncoding<Coding extends string>(
  header: string | undefined,
  offered: readonly Coding[],
): Coding | undefined {
  if (header === undefined || offered.length === 0) return undefined;
  const weights = parseWeights(header);
  // The identity is what is left, unless the client has weighed it by name.
  const identity = weights.get('identity') ?? 0;
  const weigh = (coding: Coding) => weights.get(coding) ?? weights.get('*') ?? 0;
  const taken = offered.filter((coding) => weigh(coding) > 0 && weigh(coding) >= identity);
  // The sort is stable: equals stay in the server's order.
  return taken.sort((a, b) => weigh(b) - weigh(a))[0];
}
