import { HttpError, noSuchResource } from './reply.ts';

/** One segment of a path: a text to match, or the name of a parameter. */
export type Segment = { readonly literal: string } | { readonly parameter: string };

export interface Pattern {
  readonly method: string;
  readonly segments: readonly Segment[];
  /** The path as written, such as `/users/{id}`: the name of the route in logs and metrics. */
  readonly template: string;
}

const methodPattern = /^[A-Z]+$/;
const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Parses `METHOD /path/{parameter}` into its normal form.
 * Throws on a mistake, which is the programmer's, with its offset.
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

export interface Match<T> {
  readonly value: T;
  readonly params: Readonly<Record<string, string>>;
}

interface Leaf<T> {
  readonly value: T;
  readonly names: readonly string[];
  readonly template: string;
}

class Node<T> {
  readonly literals = new Map<string, Node<T>>();
  parameter: Node<T> | undefined;
  readonly leaves = new Map<string, Leaf<T>>();
}

const noParams = Object.freeze({});

/** Finds the route for a method and a path: literal segments first, then parameters. */
export class Router<T> {
  readonly #root = new Node<T>();
  /** All methods of all routes, including HEAD and OPTIONS. */
  readonly methods = new Set(['OPTIONS']);

  /** Registers a route. Throws if another route with the same method matches the same paths. */
  add(pattern: Pattern, value: T): void {
    let node = this.#root;
    const names: string[] = [];
    for (const segment of pattern.segments) {
      let next: Node<T> | undefined;
      if ('literal' in segment) {
        next = node.literals.get(segment.literal) ?? new Node();
        node.literals.set(segment.literal, next);
      } else {
        names.push(segment.parameter);
        next = node.parameter ?? new Node();
        node.parameter = next;
      }
      node = next;
    }
    const { method, template } = pattern;
    const other = node.leaves.get(method);
    if (other !== undefined) {
      throw new Error(`pattern "${method} ${template}" conflicts with "${method} ${other.template}"`);
    }
    node.leaves.set(method, { value, names, template });
    this.methods.add(method);
    if (method === 'GET') this.methods.add('HEAD');
  }

  /** Whether the path of a pattern without parameters already has a route, for any method. */
  has(pattern: Pattern): boolean {
    const texts = pattern.segments.map((segment) => ('literal' in segment ? segment.literal : ''));
    return this.#methodsOf(texts).length > 0;
  }

  /** Whether a path has a route, for any method. */
  knows(path: string): boolean {
    return this.#methodsOf(splitPath(path)).length > 0;
  }

  /**
   * Finds the route for a request. HEAD uses the route of GET. Fails with 400 on malformed percent-encoding, 404 on
   * an unknown path, and 405 with `Allow` on a known path without this method.
   */
  match(method: string, path: string): Match<T> {
    const segments = splitPath(path);
    const wanted = method === 'HEAD' ? 'GET' : method;
    const values: string[] = [];
    const leaf = find(this.#root, segments, 0, wanted, values);
    if (leaf === undefined) throw this.#refusal(segments);
    if (leaf.names.length === 0) return { value: leaf.value, params: noParams };
    const params: Record<string, string> = {};
    for (const [i, name] of leaf.names.entries()) params[name] = values[i] ?? '';
    return { value: leaf.value, params };
  }

  /** The methods of a path, for `Allow`. Fails with 404 when there is no such path. */
  allow(path: string): string {
    return allowed(this.#methodsOf(splitPath(path)));
  }

  #refusal(segments: readonly string[]): HttpError {
    const allow = allowed(this.#methodsOf(segments));
    return new HttpError(405, `method not allowed; allowed: ${allow}`, { allow });
  }

  // All methods of all matching patterns, of any precedence.
  #methodsOf(segments: readonly string[]): string[] {
    let nodes: Node<T>[] = [this.#root];
    for (const segment of segments) {
      nodes = nodes.flatMap((node) => {
        const parameter = segment === '' ? undefined : node.parameter;
        return [node.literals.get(segment), parameter].filter((next) => next !== undefined);
      });
    }
    return nodes.flatMap((node) => [...node.leaves.keys()]);
  }
}

function find<T>(
  node: Node<T>,
  segments: readonly string[],
  depth: number,
  method: string,
  values: string[],
): Leaf<T> | undefined {
  const segment = segments[depth];
  if (segment === undefined) return node.leaves.get(method);
  // Skip the lookup in an empty map: hashing the value of a parameter would be wasted.
  const literal = node.literals.size === 0 ? undefined : node.literals.get(segment);
  if (literal !== undefined) {
    const leaf = find(literal, segments, depth + 1, method, values);
    if (leaf !== undefined) return leaf;
  }
  if (node.parameter === undefined || segment === '') return undefined;
  values.push(segment);
  const leaf = find(node.parameter, segments, depth + 1, method, values);
  if (leaf === undefined) values.pop();
  return leaf;
}

// Split first, then decode: an encoded slash is part of its segment, not a separator.
function splitPath(path: string): string[] {
  const segments = path.slice(1).split('/');
  return path.includes('%') ? segments.map(decodeSegment) : segments;
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new HttpError(400, 'the path has malformed percent-encoding');
  }
}

function allowed(methods: readonly string[]): string {
  if (methods.length === 0) throw noSuchResource();
  const all = new Set([...methods, 'OPTIONS']);
  if (all.has('GET')) all.add('HEAD');
  return [...all].sort().join(', ');
}
