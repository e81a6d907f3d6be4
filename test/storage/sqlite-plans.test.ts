import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { postQuery, userQuery } from '../../src/conformance/fixture.ts';
import { positionOf } from '../../src/domain/cursor.ts';
import { type ListPlan, listSql } from '../../src/storage/list-sql.ts';
import { openSqliteStore } from '../../src/storage/sqlite.ts';
import { temporaryFolder } from './temporary.ts';

const user = { id: 5, name: 'Ada', role: 'admin' };
const post = { id: 5, title: 'title' };

// Within one role, either has the names in order.
const byRoleAndName = ['users_by_role_name', 'users_by_role_desc_name'];

/** The indexes that serve a query's pages; with `ties`, equal names or titles are sorted among themselves. */
const userPlans: readonly (readonly [query: string, indexes: readonly string[], ties?: 'ties'])[] = [
  ['', ['INTEGER PRIMARY KEY']],
  ['sort=-id', ['INTEGER PRIMARY KEY']],
  ['sort=name', ['users_by_name']],
  ['sort=-name', ['users_by_name'], 'ties'],
  ['sort=role', ['users_by_role', 'users_by_role_desc']],
  ['sort=-role', ['users_by_role', 'users_by_role_desc']],
  ['sort=role,name', byRoleAndName],
  ['sort=-role,name', byRoleAndName],
  ['sort=role,-name', byRoleAndName, 'ties'],
  ['sort=-role,-name', byRoleAndName, 'ties'],
  ['role=admin', ['users_by_role', 'users_by_role_desc']],
  ['role=admin&sort=-id', ['users_by_role', 'users_by_role_desc']],
  ['role=admin&sort=role', ['users_by_role', 'users_by_role_desc']],
  ['role=admin&sort=name', byRoleAndName],
  ['role=admin&sort=-name', byRoleAndName, 'ties'],
];
const postPlans: typeof userPlans = [
  ['', ['posts_by_user']],
  ['sort=-id', ['posts_by_user']],
  ['sort=title', ['posts_by_user_title']],
  ['sort=-title', ['posts_by_user_title'], 'ties'],
];

describe('query plans of SQLite', () => {
  let db: DatabaseSync;
  before(async () => {
    const path = join(temporaryFolder(), 'users.db');
    await (await openSqliteStore(path)).close();
    db = new DatabaseSync(path);
  });
  after(() => db.close());

  function planOf(sql: string, parameters: readonly (string | number)[]): string[] {
    return db
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...parameters)
      .map((row) => String(row['detail']));
  }

  function check(plan: ListPlan, indexes: readonly string[], ties: boolean): void {
    const { sql, parameters } = listSql(plan, () => '?');
    const steps = planOf(sql, parameters);
    const shown = `${sql}\n${steps.join('\n')}`;
    for (const [i, step] of steps.entries()) {
      if (/(SCAN|SEARCH) (users|posts)/.test(step)) {
        const index = / USING (?:COVERING )?(?:INDEX )?(INTEGER PRIMARY KEY|\w+)/.exec(step)?.[1];
        // A scan without an index goes by rowid, which is the id.
        assert.ok(indexes.includes(index ?? 'INTEGER PRIMARY KEY'), shown);
      } else if (step.startsWith('USE TEMP B-TREE')) {
        // The ranges of a page, of which each is sorted and no longer than a page, may be merged.
        const merges = /^SCAN range_\d$/.test(steps[i - 1] ?? '');
        assert.ok(merges || (ties && step.endsWith('FOR LAST TERM OF ORDER BY')), shown);
      }
    }
  }

  for (const [query, indexes, ties] of userPlans) {
    it(`users, ${query || 'by default'}: first page and next, by index`, () => {
      const { sort, role } = userQuery(query);
      const filter = role === undefined ? {} : { role };
      const plan = { table: 'users', columns: 'id, name, role', filter, sort, limit: 21 };
      check({ ...plan, start: { offset: 0 } }, indexes, ties !== undefined);
      check({ ...plan, start: { after: positionOf(user, sort) } }, indexes, ties !== undefined);
    });
  }

  for (const [query, indexes, ties] of postPlans) {
    it(`posts of a user, ${query || 'by default'}: first page and next, by index`, () => {
      const { sort } = postQuery(query);
      const plan = { table: 'posts', columns: 'id, title', filter: { user_id: 1 }, sort, limit: 21 };
      check({ ...plan, start: { offset: 0 } }, indexes, ties !== undefined);
      check({ ...plan, start: { after: positionOf(post, sort) } }, indexes, ties !== undefined);
    });
  }

  it('the check itself refuses a sort that no index serves', () => {
    const { sort } = userQuery('sort=name,role');
    const plan = { table: 'users', columns: 'id', filter: {}, sort, limit: 21, start: { offset: 0 } };
    assert.throws(() => check(plan, ['users_by_name'], false), assert.AssertionError);
  });

  for (const [what, sql, index] of [
    ['the posts of a deleted user', 'SELECT rowid FROM posts WHERE user_id = ?', 'posts_by_user'],
    ['a count by role', 'SELECT count(*) FROM users WHERE role = ?', 'users_by_role'],
    [
      'expired keys',
      'SELECT rowid FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at',
      'by_expiry',
    ],
  ] as const) {
    it(`finds ${what} by index`, () => {
      const steps = planOf(sql, [1]);
      assert.equal(steps.length, 1);
      assert.match(steps[0] ?? '', new RegExp(`^SEARCH .*${index}`));
    });
  }
});
