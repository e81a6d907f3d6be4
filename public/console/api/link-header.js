// @ts-check

/**
 * The references of a Link header (RFC 8288) by their relation. A reference cannot contain `<` and `>`, but
 * commas and semicolons.
 * @param {string | null} header
 * @returns {Partial<Record<string, string>>}
 */
export function parseLinks(header) {
  /** @type {Partial<Record<string, string>>} */
  const links = {};
  for (const [, reference, parameters] of (header ?? '').matchAll(/<([^<>]*)>([^<]*)/g)) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))/i.exec(parameters ?? '');
    for (const name of (rel?.[1] ?? rel?.[2] ?? '').split(/\s+/)) {
      if (name !== '' && reference !== undefined) links[name.toLowerCase()] ??= reference;
    }
  }
  return links;
}
