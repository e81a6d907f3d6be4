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
