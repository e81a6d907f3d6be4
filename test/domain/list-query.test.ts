import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { userFilters } from '../../src/conformance/fixture.ts';
import { asksForPage, formatSort, maxOffset } from '../../src/domain/list-query.ts';
import { parsePostQuery } from '../../src/domain/post.ts';
import { parseUserQuery } from '../../src/domain/user.ts';
import { tables } from '../../src/storage/tables.ts';
import { refuses } from './refuses.ts';

/** The parameters of a query. A cursor in it is written as readable text: its filter, its sort and the values. */
function parametersOf(text: string): URLSearchParams {
  const parameters = new URLSearchParams(text);
  const [, filter, sort, after] = /^(\{.*?\}) (\S+) (.*)$/.exec(parameters.get('cursor') ?? '') ?? [];
  if (filter === undefined) return parameters;
  const json = `{"filter":${filter},"sort":${JSON.stringify(sort)},"after":${after}}`;
  parameters.set('cursor', Buffer.from(json).toString('base64url'));
  return parameters;
}
const users = (text: string) => parseUserQuery(parametersOf(text));
const posts = (text: string) => parsePostQuery(7, parametersOf(text));

/** Sort parameters of clients, and their normal form. */
const sorts: readonly (readonly [written: string, normal: string])[] = [
  ['id', 'id'],
  ['-id', '-id'],
  ['name', 'name,id'],
  ['-name', '-name,-id'],
  ['role,-name', 'role,-name,-id'],
  ['-role,name', '-role,name,id'],
  ['name,-id', 'name,-id'],
  ['id,name', 'id'],
  ['-id,name,role', '-id'],
  ['name,id,role', 'name,id'],
];

describe('parseUserQuery', () => {
  it('has a default for every parameter', () => {
    const sort = [{ field: 'id', descending: false }];
    assert.deepEqual(users(''), { filter: {}, sort, limit: 20, start: { offset: 0 } });
  });

  for (const [written, normal] of sorts) {
    it(`reads sort=${written} as ${normal}`, () =>
      assert.equal(formatSort(users(`sort=${written}`).sort), normal));
  }

  for (const [text, limit, start] of [
    ['limit=1', 1, { offset: 0 }],
    ['limit=100', 100, { offset: 0 }],
    ['page=1', 20, { offset: 0 }],
    ['page=2', 20, { offset: 20 }],
    ['page=3&limit=7', 7, { offset: 14 }],
    ['page=1001&limit=100', 100, { offset: maxOffset }],
    ['page=100001&limit=1', 1, { offset: maxOffset }],
    ['cursor={} id [5]', 20, { after: [5] }],
    ['cursor={} -name,-id ["Ada",5]&sort=-name&limit=3', 3, { after: ['Ada', 5] }],
    ['cursor={} role,id ["",5]&sort=role', 20, { after: ['', 5] }],
    ['cursor={} role,id ["Admin",5]&sort=role', 20, { after: ['Admin', 5] }],
    ['cursor={} name,id ["a\\tb",5]&sort=name', 20, { after: ['a\tb', 5] }],
    [`cursor={} name,id ["${'x'.repeat(201)}",5]&sort=name`, 20, { after: ['x'.repeat(201), 5] }],
    ['cursor={"role":"admin"} id [5]&role=admin', 20, { after: [5] }],
  ] as const) {
    it(`reads ${text.slice(0, 60)}`, () => {
      const query = users(text);
      assert.deepEqual({ limit: query.limit, start: query.start }, { limit, start });
    });
  }

  it('reads a role', () => assert.deepEqual(users('role=admin').filter, { role: 'admin' }));

  for (const [text, filter] of [
    ['name=Ada', { name: 'Ada' }],
    ['name=%20', { name: ' ' }],
    ['name=%25_*%5C', { name: '%_*\\' }],
    [`name=${'x'.repeat(200)}`, { name: 'x'.repeat(200) }],
    ['id=1', { id: [1] }],
    ['id=3,1,2,3', { id: [1, 2, 3] }],
    ['id=2147483648,7', { id: [7] }],
    ['id=2147483648', { id: [] }],
    ['id=7&name=a&role=x', { role: 'x', name: 'a', id: [7] }],
  ] as const) {
    it(`reads the filter ${text.slice(0, 30)}`, () => assert.deepEqual(users(text).filter, filter));
  }

  it('accepts 100 ids, and rejects 101', () => {
    const ids = Array.from({ length: 100 }, (_, i) => i + 1);
    assert.deepEqual(users(`id=${ids}`).filter, { id: ids });
    refuses(() => users(`id=${ids},1`), 'id');
  });

  for (const [field, value] of Object.entries(userFilters)) {
    if (field === 'id' || tables.users.columns.some((column) => column.field === field && column.byPrefix))
      continue;
    it(`removes ${field} from the sort if the filter gives it one value`, () =>
      assert.equal(formatSort(users(`${field}=${value}&sort=${field}`).sort), 'id'));
  }

  for (const [written, normal] of [
    ['role', 'id'],
    ['-role', '-id'],
    ['role,-name', '-name,-id'],
    ['name,-role', 'name,-id'],
    ['-role,id', 'id'],
  ] as const) {
    it(`removes the filtered role from sort=${written}, which becomes ${normal}`, () =>
      assert.equal(formatSort(users(`role=x&sort=${written}`).sort), normal));
  }

  for (const cursor of [
    '',
    'abc',
    '{} id 5',
    '{} id null',
    '{} id {"0":5,"length":1}',
    '{} id []',
    '{} id [5,5]',
    '{} id ["5"]',
    '{} id [0]',
    '{} id [1.5]',
    '{} id [2147483648]',
    '{} name,id ["Ada",5]',
    '{"role":"x"} id [5]',
  ]) {
    it(`rejects the cursor ${cursor}`, () => {
      refuses(() => users(new URLSearchParams({ cursor }).toString()), 'cursor');
    });
  }

  for (const [sort, values] of [
    ['name', '[5,5]'],
    ['name', '["\\ud800",5]'],
    ['role', '[null,5]'],
  ] as const) {
    it(`rejects a cursor sorted by ${sort} with the values ${values.slice(0, 30)}`, () => {
      const cursor = `{} ${sort},id ${values}`;
      refuses(() => users(new URLSearchParams({ sort, cursor }).toString()), 'cursor');
    });
  }

  for (const [text, culprit] of [
    ['role=', 'role'],
    ['role=Admin', 'role'],
    ['role=a%00', 'role'],
    ['role=a&role=a', 'role'],
    ['name=', 'name'],
    ['name=a%00', 'name'],
    ['name=a%0Ab', 'name'],
    [`name=${'x'.repeat(201)}`, 'name'],
    ['name=a&name=b', 'name'],
    ['id=', 'id'],
    ['id=0', 'id'],
    ['id=01', 'id'],
    ['id=1.0', 'id'],
    ['id=1,', 'id'],
    ['id=1,,2', 'id'],
    ['id=1&id=2', 'id'],
    ['title=a', '"title"'],
    ['sort=', 'sort'],
    ['sort=-', 'sort'],
    ['sort=--id', 'sort'],
    ['sort=Name', 'sort'],
    ['sort=__proto__', 'sort'],
    ['sort=name,', 'sort'],
    ['sort=name%20', 'sort'],
    ['sort=name,-name', 'sort'],
    ['sort=name&sort=role', 'sort'],
    ['page=', 'page'],
    ['page=%D9%A1', 'page'],
    ['page=99999999999999999999', 'page'],
    ['page=0', 'page'],
    ['page=01', 'page'],
    ['page=1.5', 'page'],
    ['page=%201', 'page'],
    ['page=one', 'page'],
    ['page=5002', 'page'],
    ['page=1002&limit=100', 'page'],
    ['page=1&page=1', 'page'],
    ['page=1&cursor=abc', 'page'],
    ['limit=', 'limit'],
    ['limit=05', 'limit'],
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=20.0', 'limit'],
    ['limit=all', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['cursor=a&cursor=b', 'cursor'],
    ['Name=Ada', '"Name"'],
    ['role[]=admin', '"role[]"'],
    ['=1', '""'],
    ['__proto__=1', '"__proto__"'],
  ] as const) {
    it(`rejects ${culprit} in ?${text}`, () => refuses(() => users(text), culprit));
  }
});

describe('parsePostQuery', () => {
  for (const [text, all] of [
    ['', true],
    ['sort=title', true],
    ['limit=5', false],
    ['page=1', false],
    ['cursor={"userId":7} id [5]', false],
    ['title=a', true],
    ['title=a&limit=5', false],
    ['sort=-title&limit=5', false],
  ] as const) {
    it(`reads ?${text} as a request for ${all ? 'all posts' : 'a page'}`, () =>
      assert.equal(!asksForPage(new URLSearchParams(text)), all));
  }

  for (const [written, normal] of [
    ['id', 'id'],
    ['title', 'title,id'],
    ['-title', '-title,-id'],
    ['-title,-id', '-title,-id'],
    ['id,title', 'id'],
  ] as const) {
    it(`reads sort=${written} as ${normal}`, () =>
      assert.equal(formatSort(posts(`sort=${written}`).sort), normal));
  }

  for (const [text, culprit] of [
    ['role=admin', '"role"'],
    ['all=true', '"all"'],
    ['title=', 'title'],
    ['title=a%00', 'title'],
    [`title=${'x'.repeat(201)}`, 'title'],
    ['title=a&title=b', 'title'],
    ['name=a', '"name"'],
    ['id=1', '"id"'],
    ['cursor={"userId":7} id [5]&title=a', 'cursor'],
    ['sort=name', 'sort'],
    ['sort=body', 'sort'],
    ['sort=title,title', 'sort'],
    ['limit=101', 'limit'],
    ['page=0', 'page'],
    ['page=2&cursor=abc', 'page'],
    ['cursor={"userId":8} id [5]', 'cursor'],
    ['cursor={} id [5]', 'cursor'],
  ] as const) {
    it(`rejects ${culprit} in ?${text}`, () => refuses(() => posts(text), culprit));
  }
});

describe('formatSort', () => {
  it('returns a different text for every sort', () => {
    const texts = sorts.map(([written]) => formatSort(users(`sort=${written}`).sort));
    assert.equal(new Set(texts).size, new Set(sorts.map(([, normal]) => normal)).size);
  });
});
