import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { startService } from '../support/service.ts';

interface Params {
  readonly id?: number;
  readonly ids?: readonly number[];
  readonly data?: object;
  readonly previousData?: object;
  readonly meta?: object;
  readonly target?: string;
  readonly filter?: object;
  readonly pagination?: { readonly page: number; readonly perPage: number };
  readonly sort?: { readonly field: string; readonly order: 'ASC' | 'DESC' };
}

interface Result {
  readonly data: unknown;
  readonly total?: number;
}

type Provider = Readonly<Record<string, (resource: string, params: Params) => Promise<Result>>>;

/** The data provider of src/rest/README.md, for a service at this address. */
async function loadProvider(http: string): Promise<Provider> {
  const readme = readFileSync(new URL('../../src/rest/README.md', import.meta.url), 'utf8');
  const [, code = ''] = /^## react-admin$.*?^```js\n(.*?)^```$/ms.exec(readme) ?? [];
  const here = code.replace("'http://localhost:3000'", JSON.stringify(http));
  assert.notEqual(here, code, 'the provider contains the address of the service');
  const { dataProvider } = await import(`data:text/javascript,${encodeURIComponent(here)}`);
  return dataProvider;
}

const page = (perPage: number, field: string, order: 'ASC' | 'DESC') => ({
  pagination: { page: 1, perPage },
  sort: { field, order },
});
const ada = { id: 1, name: 'Ada', role: 'admin' };
const adam = { id: 2, name: 'Adam' };
const adaNow = { id: 1, name: 'Ada' };
const withoutRole = { ...ada, role: null };
const bob = { id: 3, name: 'Bob' };
const notes = { id: 1, userId: 1, title: 'Notes', body: '' };
const edited = { ...notes, body: 'y' };
const letters = { id: 2, userId: 1, title: 'Letters', body: 'x' };
const ofAda = { meta: { userId: 1 } };

// These run in order. Each uses the records that the earlier ones left.
const calls: readonly (readonly [method: string, resource: string, params: Params, expected: Result])[] = [
  ['create', 'users', { data: { name: 'Ada', role: 'admin' } }, { data: ada }],
  ['create', 'users', { data: { name: 'Adam', role: null } }, { data: adam }],
  ['create', 'users', { data: { name: 'Bob' } }, { data: bob }],
  ['getList', 'users', { filter: {}, ...page(2, 'name', 'DESC') }, { data: [bob, adam], total: 3 }],
  ['getList', 'users', { filter: { name: 'Ad' }, ...page(1, 'name', 'ASC') }, { data: [ada], total: 2 }],
  ['getList', 'users', { filter: { role: 'admin' }, ...page(10, 'id', 'ASC') }, { data: [ada], total: 1 }],
  ['getOne', 'users', { id: 2 }, { data: adam }],
  ['getMany', 'users', { ids: [1, 9, 2] }, { data: [ada, adam] }],
  ['update', 'users', { id: 1, data: withoutRole, previousData: ada }, { data: adaNow }],
  ['updateMany', 'users', { ids: [2, 3], data: { role: 'dev' } }, { data: [2, 3] }],
  ['getOne', 'users', { id: 3 }, { data: { id: 3, name: 'Bob', role: 'dev' } }],
  ['updateMany', 'users', { ids: [2, 3], data: { role: null } }, { data: [2, 3] }],
  ['getOne', 'users', { id: 3 }, { data: bob }],
  ['create', 'posts', { data: { userId: 1, title: 'Notes' } }, { data: notes }],
  ['create', 'posts', { data: { userId: 1, title: 'Letters', body: 'x' } }, { data: letters }],
  [
    'getManyReference',
    'posts',
    { target: 'userId', id: 1, filter: { title: 'No' }, ...page(10, 'id', 'ASC') },
    { data: [notes], total: 1 },
  ],
  ['getList', 'posts', { ...ofAda, filter: {}, ...page(1, 'title', 'DESC') }, { data: [notes], total: 2 }],
  ['getOne', 'posts', { id: 1, ...ofAda }, { data: notes }],
  ['update', 'posts', { id: 1, data: edited, previousData: notes }, { data: edited }],
  ['updateMany', 'posts', { ids: [2], ...ofAda, data: { body: 'z' } }, { data: [2] }],
  ['getOne', 'posts', { id: 2, ...ofAda }, { data: { ...letters, body: 'z' } }],
  ['deleteMany', 'posts', { ids: [2], ...ofAda }, { data: [2] }],
  ['delete', 'posts', { id: 1, previousData: notes }, { data: notes }],
  ['delete', 'users', { id: 2, previousData: adam }, { data: adam }],
  ['getList', 'users', { filter: {}, ...page(9, 'id', 'ASC') }, { data: [adaNow, bob], total: 2 }],
  ['deleteMany', 'users', { ids: [1, 3] }, { data: [1, 3] }],
  ['getList', 'users', { filter: {}, ...page(10, 'id', 'ASC') }, { data: [], total: 0 }],
];

test("the README's data provider for react-admin implements all its methods", async (t) => {
  const { http } = await startService(t);
  const provider = await loadProvider(http);
  for (const [method, resource, params, expected] of calls) {
    const { data, total } = (await provider[method]?.(resource, params)) ?? {};
    const call = `${method} ${resource} ${JSON.stringify(params)}`;
    assert.deepEqual(data, expected.data, call);
    if (expected.total !== undefined) assert.equal(total, expected.total, call);
  }
});

test("the README's data provider rejects with the service's message and status", async (t) => {
  const { http } = await startService(t);
  const provider = await loadProvider(http);
  const missing = { name: 'Error', message: 'user 7 not found', status: 404 };
  await assert.rejects(async () => provider['getOne']?.('users', { id: 7 }), missing);
});
