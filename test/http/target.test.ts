import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseQuery, parseTarget } from '../../src/http/head.ts';
import { HttpError } from '../../src/http/reply.ts';

function targetOf(method: string, url: string, basePath = ''): string {
  try {
    const { path, query } = parseTarget(method, url, basePath);
    return query === '' ? path : `${path} ${query}`;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    return `${error.status} ${error.message}`;
  }
}

const noSlash = '400 the request target must begin with "/"';
const noFragment = '400 the request target must not have a fragment';
const targets: readonly [behaviour: string, method: string, url: string, want: string][] = [
  ['a path is returned as it is', 'GET', '/users', '/users'],
  ['the query follows the question mark', 'GET', '/users?a=1', '/users a=1'],
  ['only the first question mark separates', 'GET', '/users?a=1?b', '/users a=1?b'],
  ['an empty query is ignored', 'GET', '/users?', '/users'],
  ['two slashes do not start a host', 'GET', '//evil/users', '//evil/users'],
  ['only slashes are a path', 'GET', '//', '//'],
  ['a backslash is an ordinary character', 'GET', '/\\..\\x', '/\\..\\x'],
  ['dot segments are not resolved', 'GET', '/../../x', '/../../x'],
  ['escapes are not decoded', 'GET', '/%2e%2e%2fx', '/%2e%2e%2fx'],
  ['an absolute form is reduced to its path', 'GET', 'http://evil/users?a=1', '/users a=1'],
  ['an absolute form may be https and have a port', 'GET', 'HTTPS://evil:8443/users', '/users'],
  ['an absolute form may have an address', 'GET', 'http://[::1]:80/users', '/users'],
  ['an absolute form without a path is the root', 'GET', 'http://evil', '/'],
  ['an absolute form of a query alone is the root', 'GET', 'http://evil?a=1', '/ a=1'],
  ['a query may have a question mark', 'GET', 'http://evil/a?b=http://c/?d', '/a b=http://c/?d'],
  ['an absolute form with a password is rejected', 'GET', 'http://me:secret@evil/users', noSlash],
  ['an absolute form without a host is rejected', 'GET', 'http:///users', noSlash],
  ['another scheme is rejected', 'GET', 'ftp://evil/users', noSlash],
  ['a relative path is rejected', 'GET', 'users', noSlash],
  ['a query without a path is rejected', 'GET', '?a=1', noSlash],
  ['an empty target is rejected', 'GET', '', noSlash],
  ['a fragment is rejected', 'GET', '/users#top', noFragment],
  ['a fragment after the query is rejected', 'GET', '/users?a=1#top', noFragment],
  ['a fragment in an absolute form is rejected', 'GET', 'http://evil#/users', noFragment],
  ['the asterisk is accepted for OPTIONS', 'OPTIONS', '*', '*'],
  ['the asterisk is rejected for GET', 'GET', '*', noSlash],
  ['the asterisk with a query is rejected', 'OPTIONS', '*?a=1', noSlash],
  ['an authority is rejected', 'OPTIONS', 'evil:443', noSlash],
];

for (const [behaviour, method, url, want] of targets) {
  test(`${behaviour}: ${method} ${url}`, () => assert.equal(targetOf(method, url), want));
}

const mounted: readonly [behaviour: string, url: string, want: string][] = [
  ['the base path is removed', '/api/users', '/users'],
  ['the base path is the root', '/api', '/'],
  ['the base path with a slash is the root', '/api/', '/'],
  ['the base path with a query is the root', '/api?a=1', '/ a=1'],
  ['the base path of an absolute form is removed', 'http://evil/api/users', '/users'],
  ['a path that only starts with the letters of the base path is unknown', '/apiary', '404 no such resource'],
  ['a path outside the base path is unknown', '/users', '404 no such resource'],
  ['an encoded base path is unknown', '/%61pi/users', '404 no such resource'],
  ['an absolute form without the base path is unknown', 'http://evil', '404 no such resource'],
];

for (const [behaviour, url, want] of mounted) {
  test(`${behaviour}: ${url}`, () => assert.equal(targetOf('GET', url, '/api'), want));
}

const queries: readonly [behaviour: string, query: string, want: readonly (readonly [string, string])[]][] = [
  ['no query has no parameters', '', []],
  ['a parameter has a name and a value', 'a=1', [['a', '1']]],
  [
    'order and repetitions are kept',
    'b=2&a=1&b=3',
    [
      ['b', '2'],
      ['a', '1'],
      ['b', '3'],
    ],
  ],
  ['a name without an equals sign has an empty value', 'a', [['a', '']]],
  ['a value may be empty', 'a=', [['a', '']]],
  ['a name may be empty', '=1', [['', '1']]],
  ['only the first equals sign separates', 'a=b=c', [['a', 'b=c']]],
  ['empty pairs are ignored', '&&a=1&', [['a', '1']]],
  ['names and values are decoded', '%61=%62', [['a', 'b']]],
  ['a plus is a space', 'a+b=c+d', [['a b', 'c d']]],
  ['an encoded plus is a plus', 'a=%2B', [['a', '+']]],
  ['a query is decoded once', 'a=%2541', [['a', '%41']]],
  ['an encoded ampersand does not separate', 'a=1%26b=2', [['a', '1&b=2']]],
  ['a semicolon does not separate', 'a=1;b=2', [['a', '1;b=2']]],
  ['__proto__ is an ordinary name', '__proto__=1', [['__proto__', '1']]],
  ['brackets are part of the name', 'a[b]=1', [['a[b]', '1']]],
];

for (const [behaviour, query, want] of queries) {
  test(`${behaviour}: ?${query}`, () => assert.deepEqual(parseQuery(query), want));
}

for (const query of ['a=%', '%=a', 'a=%4', 'a=%zz', 'a=%c0%af', 'a=%ff', 'a=%ed%a0%80']) {
  test(`a query with malformed percent-encoding is rejected: ?${query}`, () => {
    assert.throws(() => parseQuery(query), {
      status: 400,
      message: 'the query has malformed percent-encoding',
    });
  });
}
