import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { defaultLimit, maxLimit, maxOffset } from '../../src/domain/list-query.ts';
import { maxId } from '../../src/domain/record.ts';
import { listFiles } from '../../src/http/static-files.ts';
import { Followers } from '../../src/rest/followers.ts';
import { routes } from '../../src/rest/routes.ts';
import { openStore } from '../../src/storage/open.ts';
import { type Answer, openApi, operations, validateExchange } from '../kit/openapi.ts';
import { exchange } from '../kit/wire.ts';
import { startService } from '../support/service.ts';

const json = { 'content-type': 'application/json; charset=utf-8' };
const ok: Answer = {
  status: 200,
  headers: { ...json, 'x-request-id': 'a', 'cache-control': 'private, no-cache', etag: '"1"' },
  body: '{"id":1,"name":"Ada"}',
};

describe('the OpenAPI document', () => {
  it('documents exactly the routes and files of the service', async () => {
    const repository = await openStore('memory:');
    const none = () => undefined;
    const table = routes({
      repository,
      followers: repository.changes && new Followers(repository.changes, 0, none),
      requirePreconditions: false,
      unreadyReason: none,
      renderMetrics: () => '',
    });
    const expected = [...table.map(({ pattern }) => pattern), 'GET /', 'GET /{file}'];
    assert.deepEqual([...operations().keys()].sort(), expected.sort());
    const served = listFiles(fileURLToPath(new URL('../../public', import.meta.url)));
    const names = served.map(({ urlPath }) => urlPath);
    assert.ok(
      names.includes('/') && names.includes('/openapi.json'),
      'the page and the document must be listed',
    );
  });

  it('has a different name for every operation', () => {
    const ids = [...operations().values()].map(({ operationId }) => operationId);
    assert.equal(new Set(ids).size, ids.length);
  });

  it('has only valid JSON Schemas', () => {
    const ajv = new Ajv2020();
    const found = new Map<string, unknown>(Object.entries(openApi.components.schemas));
    JSON.stringify(openApi, (key, value) => {
      if (key === 'schema') found.set(JSON.stringify(value), value);
      return value;
    });
    assert.ok(found.size > 20, `${found.size} schemas`);
    for (const [name, schema] of found) {
      assert.ok(ajv.validateSchema(schema as object), `${name}: ${ajv.errorsText()}`);
    }
  });

  it('is linked in the responses to OPTIONS on any path and to the root', async (t) => {
    const { port } = await startService(t);
    for (const head of ['OPTIONS /users', 'OPTIONS *', 'HEAD /']) {
      const request = `${head} HTTP/1.1\r\nHost: a\r\n\r\n`;
      const [response] = await exchange(port, request, { wanted: 1, isHead: true });
      assert.equal(response?.headers['link'], '</openapi.json>; rel="service-desc"', head);
    }
    const [response] = await exchange(port, 'GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n', { wanted: 1 });
    assert.deepEqual(JSON.parse(response?.body ?? ''), openApi);
  });

  it('contains no address that does not exist', async (t) => {
    const { port } = await startService(t, { publicDir: false });
    const request = 'OPTIONS /users HTTP/1.1\r\nHost: a\r\n\r\n';
    const [response] = await exchange(port, request, { wanted: 1, isHead: true });
    assert.equal(response?.headers['link'], undefined);
  });

  it('describes If-Match alike for records and files', () => {
    const { parameters } = openApi.components as unknown as {
      parameters: Record<string, { schema: { pattern?: string } }>;
    };
    const pattern = parameters['IfMatch']?.schema.pattern;
    assert.ok(pattern !== undefined);
    assert.equal(parameters['FileIfMatch']?.schema.pattern, pattern);
  });

  it('has the same limits for ids, pages and page sizes', () => {
    const { parameters, schemas } = openApi.components as unknown as {
      parameters: Record<string, { schema: Record<string, number> }>;
      schemas: { Id: { maximum: number } };
    };
    assert.equal(schemas.Id.maximum, maxId);
    assert.equal(parameters['Limit']?.schema['maximum'], maxLimit);
    assert.equal(parameters['Limit']?.schema['default'], defaultLimit);
    assert.equal(parameters['Page']?.schema['maximum'], maxOffset + 1);
  });
});

describe('the validator of exchanges', () => {
  it('accepts a correct response', () =>
    assert.equal(validateExchange('GET', '/users/1?x=1', ok), 'GET /users/{id}'));

  const wrong: readonly (readonly [string, string, string, Partial<Answer>])[] = [
    ['a status that is not documented', 'GET', '/users/1', { status: 202 }],
    ['a missing header', 'GET', '/users/1', { headers: { ...json, 'x-request-id': 'a' } }],
    ['a header that is not documented', 'GET', '/users/1', { headers: { ...ok.headers, 'x-by': 'a' } }],
    ['a header of another form', 'GET', '/users/1', { headers: { ...ok.headers, etag: '1' } }],
    ['a field that is not documented', 'GET', '/users/1', { body: '{"id":1,"name":"Ada","version":1}' }],
    ['a missing field', 'GET', '/users/1', { body: '{"id":1}' }],
    ['a field of another type', 'GET', '/users/1', { body: '{"id":"1","name":"Ada"}' }],
    ['a body that is not JSON', 'GET', '/users/1', { body: '<html>' }],
    ['another media type', 'GET', '/users/1', { headers: { ...ok.headers, 'content-type': 'text/html' } }],
    ['an unexpected body', 'DELETE', '/users/1', { status: 204 }],
    ['an error of another shape', 'PUT', '/health', { status: 405, body: '{"message":"no"}' }],
    ['405 without Allow', 'PUT', '/health', { status: 405, headers: json, body: '{"error":"no"}' }],
    ['success for an unknown method', 'PUT', '/health', {}],
    ['success for an unknown path', 'POST', '/nothing/here', {}],
  ];
  for (const [name, method, path, change] of wrong) {
    it(`rejects ${name}`, () => assert.throws(() => validateExchange(method, path, { ...ok, ...change })));
  }
});
