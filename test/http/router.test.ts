import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitPath } from '../../src/http/head.ts';
import { HttpError } from '../../src/http/reply.ts';
import { parsePattern, Router, type Segment } from '../../src/http/router.ts';

function routerOf(...patterns: readonly string[]): Router<string> {
  const router = new Router<string>();
  for (const pattern of patterns) router.add(parsePattern(pattern), pattern);
  return router;
}

/** The result of routing a request: the pattern with its parameters, or the status with `Allow`. */
function outcome(router: Router<string>, method: string, path: string): string {
  try {
    const { value, params } = router.match(method, splitPath(path));
    const shown = Object.entries(params).map(([name, text]) => ` ${name}=${text}`);
    return `${value}${shown.join('')}`;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    return [error.status, error.headers['allow']].filter((part) => part !== undefined).join(' ');
  }
}

const site = [
  'GET /',
  'GET /users',
  'POST /users',
  'GET /users/{id}',
  'DELETE /users/{id}',
  'GET /users/me',
  'GET /users/{id}/posts',
  'GET /users/me/mail',
  'PUT /{area}/{id}/posts',
  'GET /a%b',
];

const cases: readonly [behaviour: string, method: string, path: string, want: string][] = [
  ['a literal is matched', 'GET', '/users', 'GET /users'],
  ['the root is matched', 'GET', '/', 'GET /'],
  ['the method selects a pattern', 'POST', '/users', 'POST /users'],
  ['a parameter matches its segment', 'GET', '/users/7', 'GET /users/{id} id=7'],
  ['a literal takes precedence over a parameter', 'GET', '/users/me', 'GET /users/me'],
  ['a parameter matches if the literal lacks the method', 'DELETE', '/users/me', 'DELETE /users/{id} id=me'],
  ['a parameter matches if the rest is unknown', 'GET', '/users/me/posts', 'GET /users/{id}/posts id=me'],
  ['a literal in the middle of a path matches', 'GET', '/users/me/mail', 'GET /users/me/mail'],
  ['backtracking drops parameters', 'PUT', '/users/me/posts', 'PUT /{area}/{id}/posts area=users id=me'],
  ['paths are case-sensitive', 'GET', '/Users', '404'],
  ['a prefix of a path does not match', 'GET', '/user', '404'],
  ['a longer path does not match', 'GET', '/users/7/posts/1', '404'],
  ['a path with a trailing slash does not match', 'GET', '/users/', '404'],
  ['a parameter with a trailing slash does not match', 'GET', '/users/7/', '404'],
  ['a path with a second leading slash does not match', 'GET', '//users', '404'],
  ['two slashes do not match the root', 'GET', '//', '404'],
  ['a parameter is never empty', 'GET', '/users//posts', '404'],
  ['a dot segment is not followed', 'GET', '/users/../users', '404'],
  ['a dot segment is an ordinary value', 'GET', '/users/..', 'GET /users/{id} id=..'],
  ['an encoded slash is part of its segment', 'GET', '/users/a%2Fb', 'GET /users/{id} id=a/b'],
  ['an encoded slash does not separate segments', 'GET', '/users%2F7', '404'],
  ['an encoded letter is decoded', 'GET', '/%75sers', 'GET /users'],
  ['a path is decoded once', 'GET', '/users/%2575', 'GET /users/{id} id=%75'],
  ['an encoded percent sign is decoded', 'GET', '/a%25b', 'GET /a%b'],
  ['UTF-8 is decoded', 'GET', '/users/%F0%9F%98%80', 'GET /users/{id} id=😀'],
  ['a plus is not decoded as a space', 'GET', '/users/a+b', 'GET /users/{id} id=a+b'],
  ['a semicolon does not start parameters', 'GET', '/users;v=1', '404'],
  ['a lone percent is malformed', 'GET', '/users/%', '400'],
  ['half an escape is malformed', 'GET', '/users/%4', '400'],
  ['an escape without hexadecimal digits is malformed', 'GET', '/users/%zz', '400'],
  ['overlong UTF-8 is malformed', 'GET', '/%c0%ae%c0%ae', '400'],
  ['a lone surrogate is malformed', 'GET', '/users/%ed%a0%80', '400'],
  ['an unknown path with a malformed escape is malformed', 'GET', '/nowhere/%', '400'],
  ['__proto__ is an unknown path', 'GET', '/__proto__', '404'],
  ['__proto__ is an ordinary value', 'GET', '/users/__proto__', 'GET /users/{id} id=__proto__'],
  ['HEAD uses the route of GET', 'HEAD', '/users/7', 'GET /users/{id} id=7'],
  ['HEAD does not use routes of other methods', 'HEAD', '/x/7/posts', '405 OPTIONS, PUT'],
  ['a wrong method gets the allowed ones', 'PUT', '/users', '405 GET, HEAD, OPTIONS, POST'],
  ['Allow has the methods of all matching patterns', 'POST', '/users/me', '405 DELETE, GET, HEAD, OPTIONS'],
  [
    'Allow contains the methods of matching patterns of another shape',
    'POST',
    '/users/7/posts',
    '405 GET, HEAD, OPTIONS, PUT',
  ],
  ['a wrong method on an unknown path is 404', 'PUT', '/nowhere', '404'],
];

for (const [behaviour, method, path, want] of cases) {
  test(`${behaviour}: ${method} ${path}`, () => assert.equal(outcome(routerOf(...site), method, path), want));
}

test('a path of thousands of segments returns 404', () => {
  assert.equal(outcome(routerOf(...site), 'GET', '/users'.repeat(2_500)), '404');
});

const conflicts: readonly [first: string, second: string][] = [
  ['GET /users', 'GET /users'],
  ['GET /users/{id}', 'GET /users/{id}'],
  ['GET /users/{id}', 'GET /users/{name}'],
  ['GET /{a}/{b}', 'GET /{b}/{a}'],
];

for (const [first, second] of conflicts) {
  test(`${second} conflicts with ${first}`, () => {
    assert.throws(() => routerOf(first, second), {
      message: `pattern "${second}" conflicts with "${first}"`,
    });
  });
}

test('the first segment in which two patterns differ decides which takes precedence', () => {
  const router = routerOf('GET /{area}/me/mail', 'GET /users/me/{box}', 'GET /users/{id}/mail');
  assert.equal(outcome(router, 'GET', '/users/me/mail'), 'GET /users/me/{box} box=mail');
  assert.equal(outcome(router, 'GET', '/users/7/mail'), 'GET /users/{id}/mail id=7');
});

test('a literal and a parameter at the same place do not conflict', () => {
  assert.doesNotThrow(() => routerOf('GET /users/{id}', 'GET /users/me', 'POST /users/{name}'));
});

test('the parameter at one place may have another name for each method', () => {
  const router = routerOf('GET /users/{id}', 'POST /users/{name}');
  assert.equal(outcome(router, 'POST', '/users/ann'), 'POST /users/{name} name=ann');
});

test('allow returns the methods of a path in alphabetical order', () => {
  assert.equal(routerOf(...site).allow(['users']), 'GET, HEAD, OPTIONS, POST');
});

test('allow throws 404 for an unknown path', () => {
  assert.throws(() => routerOf(...site).allow(['nowhere']), { status: 404 });
});

test('methods contains those of all routes, including HEAD and OPTIONS', () => {
  const methods = [...routerOf(...site).methods].sort();
  assert.deepEqual(methods, ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
  assert.deepEqual([...routerOf('PUT /x').methods].sort(), ['OPTIONS', 'PUT']);
});

const taken: readonly [path: string, has: boolean][] = [
  ['/users', true],
  ['/users/7', true],
  ['/x/7/posts', true],
  ['/app.js', false],
];

for (const [path, has] of taken) {
  test(`the path ${path} ${has ? 'has a route' : 'has no route'} of any method`, () => {
    assert.equal(routerOf(...site).knows(splitPath(path)), has);
  });
}

const parameter = (name: string): Segment => ({ parameter: name });

const parsed: readonly [source: string, segments: readonly Segment[]][] = [
  ['GET /', ['']],
  ['GET /users', ['users']],
  ['GET /users/{id}', ['users', parameter('id')]],
  ['POST /users/{id}/posts', ['users', parameter('id'), 'posts']],
  ['DELETE /{a}/{b}', [parameter('a'), parameter('b')]],
  ['GET /{_a1}', [parameter('_a1')]],
  ['GET /a.b-c~d', ['a.b-c~d']],
  ['GET /é', ['é']],
];

for (const [source, segments] of parsed) {
  test(`${source} is a valid pattern`, () => {
    const [method, template] = source.split(' ');
    assert.deepEqual(parsePattern(source), { method, template, segments });
  });
}

const malformed: readonly [source: string, problem: string][] = [
  ...[
    '',
    '/users',
    'get /users',
    'GET2 /users',
    ' /users',
    'GET',
    'GET ',
    'GET users',
    'GET  /users',
    'GET *',
    'GET //',
    'GET //users',
    'GET /users/',
    'GET /users//posts',
    'GET /users/{id',
    'GET /users/id}',
    'GET /users/a{id}',
    'GET /users/{id}a',
    'GET /users/}id{',
    'GET /users/{}',
    'GET /users/{1}',
    'GET /users/{i-d}',
    'GET /users/{{id}}',
    'GET /users/{a}{b}',
  ].map((source): [string, string] => [source, 'must be like "GET /users/{id}"']),
  ['HEAD /users', 'HEAD is handled for every path'],
  ['OPTIONS /users', 'OPTIONS is handled for every path'],
  ['GET /users/{id}/posts/{id}', 'a parameter appears twice'],
];

for (const [source, problem] of malformed) {
  test(`the pattern ${JSON.stringify(source)} is rejected`, () => {
    assert.throws(() => parsePattern(source), {
      name: 'SyntaxError',
      message: `pattern "${source}": ${problem}`,
    });
  });
}
