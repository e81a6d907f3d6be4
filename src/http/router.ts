import { HttpError, noSuchResource } from './reply.ts';

/** The literal text of a segment, or the name of its parameter. */
export type Segment = string | { readonly parameter: string };

export interface Pattern {
  readonly method: string;
  readonly segments: readonly Segment[];
  /** The path as written, such as `/users/{id}`: the name of the route in logs and metrics. */
  readonly template: string;
}

const patternSyntax = /^([A-Z]+) (\/|(?:\/(?:[^/{}]+|\{[A-Za-z_][A-Za-z0-9_]*\}))+)$/;

/** Parses `METHOD /path/{parameter}` into its normal form. Throws if it is malformed. */
export function parsePattern(source: string): Pattern {
  const fail = (problem: string) => new SyntaxError(`pattern "${source}": ${problem}`);
  const [, method, template] = patternSyntax.exec(source) ?? [];
  if (method === undefined || template === undefined) throw fail('must be like "GET /users/{id}"');
  if (method === 'HEAD' || method === 'OPTIONS') throw fail(`${method} is handled for every path`);
  const segments = template
    .slice(1)
    .split('/')
    .map((text): Segment => (text.startsWith('{') ? { parameter: text.slice(1, -1) } : text));
  const names = segments.flatMap((segment) => (typeof segment === 'string' ? [] : segment.parameter));
  if (new Set(names).size < names.length) throw fail('a parameter appears twice');
  return { method, template, segments };
}

/** The pattern of a GET for one path, decoded, whose braces are ordinary characters. */
export function literalPattern(path: string): Pattern {
  return { method: 'GET', template: path, segments: path.slice(1).split('/') };
}

class Node<T> {
  readonly literals = new Map<string, Node<T>>();
  parameter: Node<T> | undefined;
  readonly leaves = new Map<string, { readonly value: T; readonly pattern: Pattern }>();
}

/** Finds the route for a method and the decoded segments of a path: literal segments first, then parameters. */
export class Router<T> {
  readonly #root = new Node<T>();
  /** All methods of all routes, including HEAD and OPTIONS. */
  readonly methods = new Set(['OPTIONS']);

  /** Registers a route. Throws if another route with the same method matches the same paths. */
  add(pattern: Pattern, value: T): void {
    let node = this.#root;
    for (const segment of pattern.segments) {
      let next = typeof segment === 'string' ? node.literals.get(segment) : node.parameter;
      next ??= new Node();
      if (typeof segment === 'string') node.literals.set(segment, next);
      else node.parameter = next;
      node = next;
    }
    const { method, template } = pattern;
    const other = node.leaves.get(method)?.pattern;
    if (other !== undefined)
      throw new Error(`pattern "${method} ${template}" conflicts with "${method} ${other.template}"`);
    node.leaves.set(method, { value, pattern });
    this.methods.add(method);
    if (method === 'GET') this.methods.add('HEAD');
  }

  /** Whether a path has a route, for any method. */
  knows(segments: readonly string[]): boolean {
    return this.#nodesOf(segments).length > 0;
  }

  /** The methods of a path, for `Allow`. Fails with 404 when there is no such path. */
  allow(segments: readonly string[]): string {
    return allowed(this.#nodesOf(segments));
  }

  /** Finds a route; HEAD uses that of GET. Fails with 404 or, with `Allow`, 405. */
  match(method: string, segments: readonly string[]) {
    const nodes = this.#nodesOf(segments);
    const wanted = method === 'HEAD' ? 'GET' : method;
    // `DELETE /users/me` may match only `/users/{id}`, although `GET /users/me` exists.
    const leaf = nodes.find(({ leaves }) => leaves.has(wanted))?.leaves.get(wanted);
    if (leaf === undefined) {
      const allow = allowed(nodes);
      throw new HttpError(405, `method not allowed; allowed: ${allow}`, { allow });
    }
    const params: Record<string, string> = {};
    for (const [i, segment] of leaf.pattern.segments.entries()) {
      if (typeof segment !== 'string') params[segment.parameter] = segments[i] ?? '';
    }
    return { value: leaf.value, params };
  }

  /** The ends of all matching patterns. Those with literal segments come first. */
  #nodesOf(segments: readonly string[]): Node<T>[] {
    let nodes = [this.#root];
    for (const segment of segments) {
      const next: Node<T>[] = [];
      for (const { literals, parameter } of nodes) {
        // A lookup interns its key. Without this check, V8's table of strings would collect every id.
        const literal = literals.size === 0 ? undefined : literals.get(segment);
        if (literal !== undefined) next.push(literal);
        // An empty segment, as in `/users/`, is no value.
        if (parameter !== undefined && segment !== '') next.push(parameter);
      }
      nodes = next;
    }
    return nodes.filter(({ leaves }) => leaves.size > 0);
  }
}

function allowed<T>(nodes: readonly Node<T>[]): string {
  if (nodes.length === 0) throw noSuchResource();
  const methods = new Set(['OPTIONS', ...nodes.flatMap(({ leaves }) => [...leaves.keys()])]);
  if (methods.has('GET')) methods.add('HEAD');
  return [...methods].sort().join(', ');
}
