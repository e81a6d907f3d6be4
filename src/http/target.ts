import { HttpError } from './http-error.ts';

export interface Target {
  /** Still percent-encoded; `*` for the asterisk-form. */
  readonly path: string;
  /** What follows the `?`, still encoded. */
  readonly query: string;
}

const absoluteForm = /^https?:\/\/[^/?#]+/i;

/**
 * Splits a request target (RFC 9112, 3.2) by hand: `new URL` throws on `//`, follows `..` and takes
 * a host out of `//host/path`, each of which has crashed or opened a server.
 */
export function parseTarget(method: string, url: string): Target {
  if (url.includes('#')) throw new HttpError(400, 'the request target must not have a fragment');
  const origin = url.startsWith('/') ? url : fromAbsolute(url);
  if (origin === undefined) {
    if (url === '*' && method === 'OPTIONS') return { path: '*', query: '' };
    throw new HttpError(400, 'the request target must begin with "/"');
  }
  const mark = origin.indexOf('?');
  if (mark === -1) return { path: origin, query: '' };
  return { path: origin.slice(0, mark), query: origin.slice(mark + 1) };
}

function fromAbsolute(url: string): string | undefined {
  const authority = absoluteForm.exec(url);
  if (authority === null) return undefined;
  const rest = url.slice(authority[0].length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** The parameters of a query in order, repetitions included; malformed encoding is a 400 that names it. */
export function parseQuery(query: string): [name: string, value: string][] {
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
