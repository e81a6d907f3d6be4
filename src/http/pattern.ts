/** One segment of a path: text to equal, or the name of the parameter it becomes. */
export type Segment = { readonly literal: string } | { readonly parameter: string };

export interface Pattern {
  readonly method: string;
  readonly segments: readonly Segment[];
  /** The path as written, such as `/users/{id}`: what logs and metrics call the route. */
  readonly template: string;
}

const methodPattern = /^[A-Z]+$/;
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Parses `METHOD /path/{parameter}` into its normal form.
 * A mistake in it is the programmer's, and throws with the offset at which it stands.
 */
export function parsePattern(source: string): Pattern {
  const fail = (offset: number, problem: string) =>
    new SyntaxError(`pattern "${source}": ${problem} (at offset ${offset})`);
  const space = source.indexOf(' ');
  const method = source.slice(0, Math.max(space, 0));
  if (!methodPattern.test(method)) throw fail(0, 'must begin with a method in capitals and a space');
  if (method === 'HEAD' || method === 'OPTIONS') throw fail(0, `${method} is answered for every path`);
  const template = source.slice(space + 1);
  if (!template.startsWith('/')) throw fail(space + 1, 'the path must begin with "/"');
  if (template === '/') return { method, template, segments: [{ literal: '' }] };

  let offset = space + 1;
  const names = new Set<string>();
  const segments = template
    .slice(1)
    .split('/')
    .map((text): Segment => {
      const start = offset + 1;
      offset = start + text.length;
      if (text === '') throw fail(start, 'a segment is empty');
      if (!text.includes('{') && !text.includes('}')) return { literal: text };
      const name = text.slice(1, -1);
      if (text !== `{${name}}`) throw fail(start, 'a parameter must be a whole segment, as {name}');
      if (!namePattern.test(name)) throw fail(start + 1, `"${name}" is not a parameter name`);
      if (names.has(name)) throw fail(start + 1, `the parameter "${name}" stands twice`);
      names.add(name);
      return { parameter: name };
    });
  return { method, template, segments };
}
