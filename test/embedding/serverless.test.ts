import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  createFetchHandler,
  createRequestListener,
  type Repository,
  type ServiceEvent,
} from '../../src/index.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { documents } from '../kit/markdown.ts';
import { countKept } from '../support/garbage.ts';
import { createFolder, whyNot } from './folder.ts';

interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}

interface Result {
  readonly statusCode: number;
  readonly body: string;
  readonly isBase64Encoded: boolean;
}

type Handler = (event: object, context: object) => Promise<Result>;
type EventOf = (method: string, url: URL, call: Call) => object;

const ofRestApi: EventOf = (httpMethod, url, { headers = {}, body = null, isBase64Encoded = false }) => {
  const lists = (pairs: Iterable<[string, string]>) =>
    Object.fromEntries([...pairs].map(([name, value]) => [name, [value]]));
  return {
    ...{ resource: '/{proxy+}', path: url.pathname, httpMethod, body, isBase64Encoded },
    pathParameters: { proxy: url.pathname.slice(1) },
    headers: { ...headers, Host: url.host },
    multiValueHeaders: lists(Object.entries({ ...headers, Host: url.host })),
    queryStringParameters: Object.fromEntries(url.searchParams),
    multiValueQueryStringParameters: lists(url.searchParams),
    requestContext: { stage: 'prod', identity: { sourceIp: '192.0.2.1' } },
  };
};

/** The events of a function URL have this format too. */
const ofHttpApi: EventOf = (method, url, { headers, isBase64Encoded = false, ...body }) => ({
  ...{ version: '2.0', routeKey: '$default', rawPath: url.pathname, rawQueryString: url.search.slice(1) },
  headers: { host: url.host, ...headers },
  requestContext: { stage: '$default', http: { method, path: url.pathname, sourceIp: '192.0.2.1' } },
  ...{ ...body, isBase64Encoded },
});

const page = documents.get('src/embedding.md') ?? '';
const blocks = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
const exampleOf = (name: string) => blocks.find((code) => code.includes(` from '${name}'`)) ?? '';
const hono = `
  import { Hono } from 'hono';
  import { handle } from 'hono/aws-lambda';
  import { users } from './users.js';
  const app = new Hono();
  ${/^\| Hono \| `([^`]+)`/m.exec(page)?.[1]}
  export const handler = handle(app);`;

const jsonType = { 'content-type': 'application/json' };
const long = 'x'.repeat(1_000_000);

const steps: readonly [request: string, call: Call, status: number, body: RegExp][] = [
  ['POST /users', { headers: jsonType, body: '{"name":"Ada"}' }, 201, /^\{"id":1,"name":"Ada"\}$/],
  ['POST /users', { headers: jsonType, body: btoa('{"name":"Eve"}'), isBase64Encoded: true }, 201, /"Eve"/],
  [
    'POST /users',
    { headers: { ...jsonType, expect: '100-continue' }, body: '{"name":"É"}' },
    201,
    /^\{.*"É"/,
  ],
  ['POST /users', { headers: jsonType }, 400, /is empty/],
  ['GET /users?limit=1&sort=-name', {}, 200, /^\[\{"id":3,"name":"É"\}\]$/],
  ['GET /users?name=%C3%89', {}, 200, /^\[\{"id":3,"name":"É"\}\]$/],
  ['PUT /users/1', { headers: { ...jsonType, 'if-match': '"0"' }, body: '{"name":"Eve"}' }, 412, /version/],
  ['DELETE /users/2', {}, 204, /^$/],
  ['GET /users/2', {}, 404, /^\{"error":"user 2 not found"\}$/],
  ['HEAD /users/1', {}, 200, /^$/],
  ['OPTIONS /users', {}, 204, /^$/],
  ['GET /', {}, 200, /<title>Users/],
  ['GET /favicon.svg', {}, 200, /^<svg[\s\S]*<\/svg>\s*$/],
  ['GET /openapi.json', {}, 200, /^\{[\s\S]*\}\s*$/],
  ['POST /echo', { headers: jsonType, body: `"${long}"` }, 200, /^\{"youSent":"x{1000000}"\}$/],
  ['POST /echo', { headers: jsonType, body: `"${long}${long}"` }, 413, /1048576 bytes/],
];

const module = `
  let target;
  export const users = (...given) => target(...given);
  export const set = (to) => { target = to; };`;

/** Loads an example whose `users` is this function. Resolves to a function that passes a request to its handler. */
async function load(t: TestContext, code: string, eventOf: EventOf, users: (...given: never[]) => unknown) {
  const folder = await createFolder(t, {
    'users.js': module,
    'host.js': code,
  });
  const load = async (name: string) => await import(pathToFileURL(join(folder, name)).href);
  (await load('users.js')).set(users);
  const { handler }: { handler: Handler } = await load('host.js');
  return async (request: string, call: Call = {}) => {
    const [method = '', path = ''] = request.split(' ');
    const result = await handler(eventOf(method, new URL(`https://api.example/api${path}`), call), {});
    const text = Buffer.from(result.body, result.isBase64Encoded ? 'base64' : 'utf8').toString();
    return { status: result.statusCode, text };
  };
}

/** The status of a response, or 500 if the handler fails: then AWS Lambda sends an error. */
async function statusOf(sent: Promise<{ readonly status: number }>): Promise<number> {
  return await sent.then(
    ({ status }) => status,
    () => 500,
  );
}

/** The options of a listener, and the requests that it reports. */
function observed(repository: Repository = createMemoryStore()) {
  const reported: string[] = [];
  const observe = (event: ServiceEvent) => {
    if (event.type === 'request') reported.push(`${event.method} ${event.path} ${event.status}`);
  };
  return { reported, options: { repository, basePath: '/api', observe } };
}

const adapters = [
  ['serverless-http', exampleOf('serverless-http'), createRequestListener],
  ['@codegenie/serverless-express', exampleOf('@codegenie/serverless-express'), createRequestListener],
  ['hono', hono, createFetchHandler],
] as const;

for (const [adapter, code, create] of adapters) {
  describe(`the service on AWS Lambda by ${adapter}`, () => {
    const skip = whyNot([adapter]);
    for (const [source, eventOf] of [
      ['a REST API', ofRestApi],
      ['an HTTP API', ofHttpApi],
    ] as const) {
      it(`answers each request of ${source}, and reports it once`, { skip }, async (t) => {
        const { options, reported } = observed();
        const send = await load(t, code, eventOf, create(options));
        const expected: string[] = [];
        for (const [request, call, status, body] of steps) {
          const result = await send(request, call);
          assert.equal(result.status, status, `${request}: ${result.text.slice(0, 200)}`);
          assert.match(result.text, body, request);
          expected.push(`${request.replace(' ', ' /api').replace(/\?.*/, '')} ${status}`);
        }
        assert.deepEqual(reported, expected);
      });
    }

    it('holds nothing after many requests', { skip }, async (t) => {
      const { options, reported } = observed();
      const users: (...given: never[]) => unknown = create({ ...options, limits: { maxInFlight: 50 } });
      const held: WeakRef<object>[] = [];
      const send = await load(t, code, ofHttpApi, (...given) => {
        for (const one of given) if (typeof one === 'object') held.push(new WeakRef(one));
        return users(...given);
      });
      const paths = ['/users/1', '/openapi.json', '/users'];
      for (let i = 0; i < 300; i += 1) await send(`GET ${paths[i % paths.length]}`);
      await Promise.all(Array.from({ length: 20 }, () => send('GET /users/1')));
      assert.equal(reported.length, 320);
      assert.deepEqual(
        [...new Set(reported)],
        ['GET /api/users/1 404', 'GET /api/openapi.json 200', 'GET /api/users 200'],
      );
      const { text } = await send('GET /metrics');
      assert.match(text, /^users_service_requests_in_flight\{face="http"\} 1$/m, 'only this request');
      assert.ok((await countKept(held)) < 10, 'requests and responses stay in memory');
    });

    if (create === createFetchHandler) return;

    it('returns a batch instead of a stream of changes', { skip }, async (t) => {
      const { options, reported } = observed();
      await options.repository.users.create({ name: 'Ada' });
      const send = await load(t, code, ofHttpApi, create(options));
      const result = await send('GET /changes', { headers: { accept: 'text/event-stream' } });
      assert.match(result.text, /^\[\{.*"subject":"users\/1".*\}\]$/);
      assert.deepEqual(reported, ['GET /api/changes 200']);
    });

    it('fails, and reports it, if a list cannot be read to its end', { skip }, async (t) => {
      // Where an adapter reports the error.
      t.mock.method(console, 'error', () => undefined);
      const store = createMemoryStore();
      await store.users.create({ name: 'Ada' });
      for (let i = 0; i < 20; i += 1) await store.posts(1).create({ title: 'a', body: long.slice(0, 9_000) });
      const { options, reported } = observed({
        ...store,
        posts(id) {
          const posts = store.posts(id);
          const list: typeof posts.list = async (query, options) => {
            if ('after' in query.start) throw new Error('the disk is broken');
            return await posts.list(query, options);
          };
          return { ...posts, list };
        },
      });
      const send = await load(t, code, ofHttpApi, create(options));
      assert.equal(await statusOf(send('GET /users/1/posts')), 500);
      assert.deepEqual(reported, ['GET /api/users/1/posts 500']);
      const { text } = await send('GET /metrics');
      assert.match(text, /^users_service_requests_in_flight\{face="http"\} 1$/m, 'only this request');
    });

    it('fails if the head of a response cannot be written', { skip }, async (t) => {
      t.mock.method(console, 'error', () => undefined);
      const { options, reported } = observed();
      const users = createRequestListener(options);
      const send = await load(t, code, ofHttpApi, (request: IncomingMessage, response: ServerResponse) => {
        t.mock.method(response, 'writeHead', () => assert.fail('a bug of the host'));
        users(request, response);
      });
      assert.equal(await statusOf(send('OPTIONS /users')), 500);
      assert.deepEqual(reported, ['OPTIONS /api/users 499']);
    });
  });
}
