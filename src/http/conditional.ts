import { HttpError } from './reply.ts';
import type { HttpRequest } from './request.ts';

// RFC 9110, 8.8.3: a tag consists of visible characters except the quote, including Latin-1 bytes.
// Two patterns of white space side by side would take a time that grows with the square of its length.
const tagPattern = /[ \t]*(?:((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(,|$)/y;
// Far more than any client sends; empty members count too. Parsing thousands would take longer than the request.
const maxMembers = 100;

/** The tags in If-Match or If-None-Match, such as `"1"` and `W/"1"`, or `*`; `undefined` if malformed or too long. */
export function parseEntityTags(header: string): '*' | readonly string[] | undefined {
  if (header.trim() === '*') return '*';
  const tags: string[] = [];
  tagPattern.lastIndex = 0;
  for (let members = 0; tagPattern.lastIndex < header.length; members += 1) {
    const found = members < maxMembers ? tagPattern.exec(header) : null;
    if (found === null) return undefined;
    const [, tag] = found;
    if (tag !== undefined) tags.push(tag);
  }
  return tags.length === 0 ? undefined : tags;
}

/** Whether If-None-Match contains the tag (weak comparison). A malformed header is ignored: a full reply is correct. */
export function isNotModified(ifNoneMatch: string, tag: string): boolean {
  const tags = parseEntityTags(ifNoneMatch);
  return tags === '*' || tags?.some((one) => one === `"${tag}"` || one === `W/"${tag}"`) === true;
}

export interface Validators {
  /** The opaque part of a strong entity tag. */
  readonly tag: string;
  /** In ms, as in a header: without a fraction of a second. */
  readonly modified: number;
}

/** Whether a client has this version of a file, in the order of RFC 9110, 13.2.2. Fails with 412 if it wants another. */
export function hasVersion(request: Pick<HttpRequest, 'header'>, { tag, modified }: Validators): boolean {
  const ifMatch = request.header('if-match');
  const tags = ifMatch === undefined ? '*' : parseEntityTags(ifMatch);
  const isLater = ifMatch === undefined && modified > parseDate(request.header('if-unmodified-since'));
  if (isLater || (tags !== '*' && tags?.includes(`"${tag}"`) !== true))
    throw new HttpError(412, 'the file is not the expected one');
  const ifNoneMatch = request.header('if-none-match');
  if (ifNoneMatch !== undefined) return isNotModified(ifNoneMatch, tag);
  const since = parseDate(request.header('if-modified-since'));
  return modified <= since && since <= Date.now();
}

// RFC 9110, 5.6.7: three forms. `Date.parse` accepts many more, and reads the one without a zone as local time.
const datePattern = /^[A-Z][a-z]{2,8},? [0-9A-Za-z: -]+$/;

// An invalid date becomes NaN, for which every comparison is false.
function parseDate(header: string | undefined): number {
  if (header === undefined || !datePattern.test(header)) return Number.NaN;
  return Date.parse(header.endsWith(' GMT') ? header : `${header} GMT`);
}

const rangePattern = /^bytes=[ \t]*(?:([0-9]+)-([0-9]+)?|-([0-9]+))[ \t]*$/i;

/**
 * The bytes of a file to send, from `start` to `end`, both inclusive; `undefined` for all of it. Only a GET can have a
 * range (RFC 9110, 14.2). For several ranges, another unit or a malformed one, the whole is sent. Fails with 416.
 */
export function requestedRange(request: Pick<HttpRequest, 'method' | 'header'>, tag: string, size: number) {
  const ifRange = request.header('if-range');
  // A date cannot distinguish versions (RFC 9110, 13.1.5).
  if (request.method !== 'GET' || (ifRange !== undefined && ifRange !== `"${tag}"`)) return undefined;
  const found = rangePattern.exec(request.header('range') ?? '');
  if (found === null) return undefined;
  const [, first, last, suffix] = found;
  // An empty file has no last bytes, so it is sent as a whole.
  if (size === 0 && Number(suffix) > 0) return undefined;
  const start = first === undefined ? Math.max(size - Number(suffix), 0) : Number(first);
  if (last !== undefined && Number(last) < start) return undefined;
  if (start < size) return { start, end: Math.min(Number(last ?? size), size - 1) };
  throw new HttpError(416, 'the range lies outside the file', { 'content-range': `bytes */${size}` });
}

/** The weights in Accept or Accept-Encoding by lower-case name. An invalid `q` is NaN: every comparison is false. */
export function parseWeights(header: string): Map<string, number> {
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(',', maxMembers)) {
    const [value = '', ...parameters] = part.split(';', maxMembers).map((text) => text.trim());
    const q = parameters.find((text) => text.startsWith('q='));
    weights.set(value, q === undefined ? 1 : Number(q.slice(2)));
  }
  return weights;
}

/** Whether a client accepts a type by its name, with at least the weight of the first of `others` that it accepts. */
export function prefers(accept: string | undefined, type: string, others: readonly string[]): boolean {
  if (accept === undefined) return false;
  const weights = parseWeights(accept);
  // A wildcard does not show that the client supports the type.
  const weight = weights.get(type) ?? 0;
  const other = others.map((name) => weights.get(name)).find((found) => found !== undefined) ?? 0;
  return weight > 0 && weight >= other;
}

/** Chooses the coding with the highest weight, of equal ones the first; `undefined` for identity (RFC 9110, 12.5.3). */
export function chooseEncoding<Coding extends string>(
  header: string | undefined,
  offered: readonly Coding[],
): Coding | undefined {
  if (header === undefined || offered.length === 0) return undefined;
  const weights = parseWeights(header);
  // Identity is the last choice, unless the client has given it a weight.
  const identity = weights.get('identity') ?? 0;
  const weigh = (coding: Coding) => weights.get(coding) ?? weights.get('*') ?? 0;
  const taken = offered.filter((coding) => weigh(coding) > 0 && weigh(coding) >= identity);
  return taken.sort((a, b) => weigh(b) - weigh(a))[0];
}
