import { HttpError, noSuchResource } from './http-error.ts';

export interface Target {
  /** Below the base path, still percent-encoded; `*` for the asterisk-form. */
  readonly path: string;
  /** What follows the `?`, still encoded. */
  readonly query: string;
}

// A user name and password in it are as wrong as they are dangerous (RFC 9110, 4.2.4).
const absoluteForm = /^https?:\/\/[^/?#@]+/i;

/**
 * Splits a request target (RFC 9112, 3.2) by hand: `new URL` throws on `//`, follows `..` and takes
 * a host out of `//host/path`, each of which has crashed or opened a server. Fails with 400 when it is
 * malformed, with 404 when it is not below `basePath`.
 */
export function parseTarget(method: string, url: string, basePath: string): Target {
  if (url.includes('#')) throw new HttpError(400, 'the request target must not have a fragment');
  if (url === '*' && method === 'OPTIONS') return { path: '*', query: '' };
  // The authority is not looked at, nor is Host: this service is the same under every name.
  const authority = absoluteForm.exec(url)?.[0] ?? '';
  const mark = url.indexOf('?');
  const path = url.slice(authority.length, mark === -1 ? undefined : mark);
  const query = mark === -1 ? '' : url.slice(mark + 1);
  if (path === '' && authority !== '') return { path: below(basePath, '/'), query };
  if (!path.startsWith('/')) throw new HttpError(400, 'the request target must begin with "/"');
  return { path: below(basePath, path), query };
}

function below(basePath: string, path: string): string {
  if (basePath === '') return path;
  if (path === basePath) return '/';
  if (!path.startsWith(`${basePath}/`)) throw noSuchResource();
  return path.slice(basePath.length);
}

export type Parameter = readonly [name: string, value: string];

/** The parameters of a query in order, repetitions included; malformed encoding is a 400. */
export function parseQuery(query: string): Parameter[] {
  if (query === '') return [];
  return query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const equals = pair.indexOf('=');
      const name = equals === -1 ? pair : pair.slice(0, equals);
      return [decode(name), equals === -1 ? '' : decode(pair.slice(equals + 1))];
    });
}

function decode(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new HttpError(400, 'the query has malformed percent-encoding');
  }
}
