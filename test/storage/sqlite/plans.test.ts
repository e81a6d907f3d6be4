import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { userFilters, userQuery } from '../../../src/conformance/fixture.ts';
import { type NestedKind, nestedKinds } from '../../../src/conformance/kinds.ts';
import { type ListQuery, positionOf } from '../../../src/domain/list-query.ts';
import { type RecordKind, recordKinds } from '../../../src/domain/record.ts';
import { userFields } from '../../../src/domain/user.ts';
import { sqliteReads } from '../../../src/storage/sqlite/reads.ts';
import { createFile } from './new-file.ts';

const user = { id: 5, name: 'Ada', role: 'admin' };

// Within one role, both indexes have the names in order.
const byRoleAndName = ['users_by_role_name', 'users_by_role_desc_name'];

type Plans = readonly (readonly [query: string, indexes: readonly string[]])[];

const alongField = (field: string, filter = ''): Plans =>
  ['', '-'].map((sign) => [`${filter}sort=${sign}${field}`, [`users_by_${field}`]]);
/** Each field by which users can be sorted or filtered has an index. */
const fieldPlans: Plans = [
  ...Object.keys(userFields).flatMap((field) => alongField(field)),
  ...Object.entries(userFilters).flatMap(([field, value]) => alongField(field, `${field}=${value}&`)),
].filter(([query]) => !query.endsWith('id'));
/** Combinations of sorts and filters, with the indexes that serve their pages. */
const userPlans: Plans = [
  ['', ['INTEGER PRIMARY KEY']],
  ['sort=-id', ['INTEGER PRIMARY KEY']],
  ['sort=role,name', byRoleAndName],
  ['sort=-role,name', byRoleAndName],
  ['sort=role,-name', byRoleAndName],
  ['sort=-role,-name', byRoleAndName],
  ['role=admin', ['users_by_role']],
  ['role=admin&sort=-id', ['users_by_role']],
  ['role=admin&sort=name', byRoleAndName],
  ['role=admin&sort=-name', byRoleAndName],
  ['role=admin&sort=role,name', byRoleAndName],
  ['role=admin&sort=-role,name', byRoleAndName],
  ['role=admin&sort=role,-name', byRoleAndName],
  ['role=admin&sort=-role,-name', byRoleAndName],
  ['name=A&role=admin&sort=name', byRoleAndName],
  ['name=A&role=admin&sort=-name', byRoleAndName],
];
const nestedPlans = ({ kind, fields, text }: NestedKind): Plans => [
  ['', [`${kind}_by_user`]],
  ['sort=-id', [`${kind}_by_user`]],
  ...Object.keys(fields)
    .filter((field) => field !== 'id')
    .flatMap((field) =>
      ['', '-'].map((sign) => [`sort=${sign}${field}`, [`${kind}_by_user_${field}`]] as const),
    ),
  [`${text}=t&sort=${text}`, [`${kind}_by_user_${text}`]],
  [`${text}=t&sort=-${text}`, [`${kind}_by_user_${text}`]],
];
const listedTable = new RegExp(`^(SCAN|SEARCH) (${recordKinds.join('|')})`);
const searched = ['name', ...nestedKinds.map(({ text }) => text)].join('|');
const bounds = ['>', '<'].map((sign) => new RegExp(`\\b(${searched}) ${sign}`, 'g'));

describe('query plans of SQLite', () => {
  let db: DatabaseSync;
  /** The prepared statements in order. */
  let statements: string[];
  before(async () => {
    const { path } = await createFile();
    db = new DatabaseSync(path);
    const prepare = db.prepare.bind(db);
    db.prepare = (sql) => {
      statements.push(sql);
      return prepare(sql);
    };
    statements = [];
  });
  after(() => db.close());

  function planOf(sql: string): string[] {
    const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
    return steps.map((row) => String(row['detail']));
  }

  /** Lists a first page, a later page and a page after a row, and checks the plan of each statement. */
  function check(
    kind: RecordKind,
    filter: object,
    query: ListQuery<string>,
    row: object,
    indexes: readonly string[],
  ): void {
    for (const start of [query.start, { offset: 20 }, { after: positionOf(row, query.sort) }]) {
      const reads = sqliteReads(db);
      statements = [];
      reads.operations[kind].list({ ...query, filter, start });
      const [sql = '', ...more] = statements;
      assert.deepEqual(more, [], 'a page must be one statement');
      const steps = planOf(sql).filter((step) => !['MERGE (UNION ALL)', 'LEFT', 'RIGHT'].includes(step));
      const shown = `${sql}\n${steps.join('\n')}`;
      // With two bounds on one side, SQLite could start at the more distant one.
      for (const select of sql.split('UNION ALL')) {
        for (const side of bounds) {
          assert.ok((select.match(side) ?? []).length <= 1, shown);
        }
      }
      for (const step of steps) {
        assert.match(step, listedTable, shown);
        const index = / USING (?:COVERING )?(?:INDEX )?(INTEGER PRIMARY KEY|\w+)/.exec(step)?.[1];
        // A scan without an index goes by rowid, which is the id.
        assert.ok(indexes.includes(index ?? 'INTEGER PRIMARY KEY'), shown);
      }
      // Rows with an equal value can be most of the table, so the rest of them must be found by id.
      if ('after' in start) assert.match(steps.join('\n'), /(rowid|id)[<>]\?/, shown);
    }
  }

  for (const [text, indexes] of [...fieldPlans, ...userPlans]) {
    it(`read pages of users with ${text || 'the defaults'} along an index, without sorting`, () => {
      const query = userQuery(text);
      check('users', query.filter, query, user, indexes);
    });
  }

  for (const nested of nestedKinds) {
    for (const [text, indexes] of nestedPlans(nested)) {
      it(`read pages of ${nested.kind} with ${text || 'the defaults'} along an index, without sorting`, () => {
        const query = nested.query(text);
        const row = { id: 5, userId: 1, ...nested.draftOf('text') };
        check(nested.kind, { userId: 1, ...query.filter }, query, row, indexes);
      });
    }
  }

  for (const sort of ['id', '-id', 'role', 'role,name']) {
    it(`read the matching names of a search sorted by ${sort} along their index, and sort them`, () => {
      statements = [];
      const query = userQuery(`name=A&sort=${sort}`);
      sqliteReads(db).operations.users.list(query);
      assert.deepEqual(planOf(statements.at(-1) ?? ''), [
        'SEARCH users USING COVERING INDEX users_by_name (name>? AND name<?)',
        'USE TEMP B-TREE FOR ORDER BY',
      ]);
    });
  }

  for (const more of ['', '&sort=name', '&role=admin&sort=name', '&name=A&sort=-role,name']) {
    const text = `id=1,2${more}`;
    it(`read only the users with the requested ids with ${text}`, () => {
      const query = userQuery(text);
      for (const start of [query.start, { after: positionOf(user, query.sort) }]) {
        statements = [];
        sqliteReads(db).operations.users.list({ ...query, start });
        const steps = planOf(statements.at(-1) ?? '').filter((step) => / users USING /.test(step));
        assert.ok(steps.length > 0);
        for (const step of steps) assert.equal(step, 'SEARCH users USING INTEGER PRIMARY KEY (rowid=?)');
      }
    });
  }

  it('fail the check for a sort without an index', () => {
    const query = userQuery('sort=name,role');
    assert.throws(() => check('users', query.filter, query, user, ['users_by_name']), assert.AssertionError);
  });

  const expired = 'SELECT rowid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at';
  for (const [what, sql, index] of [
    ...nestedKinds.map(({ kind }) => {
      const sql = `SELECT rowid FROM ${kind} WHERE user_id = ?`;
      return [`the ${kind} of a deleted user`, sql, `${kind}_by_user`] as const;
    }),
    ['a count by role', 'SELECT count(*) FROM users WHERE role = ?', 'users_by_role'],
    ['expired keys', expired, 'by_expiry'],
  ] as const) {
    it(`find ${what} by an index`, () => {
      const steps = planOf(sql);
      assert.equal(steps.length, 1);
      assert.match(steps[0] ?? '', new RegExp(`^SEARCH .*${index}`));
    });
  }
});
