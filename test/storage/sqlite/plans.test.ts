import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { postQuery, userQuery } from '../../../src/conformance/fixture.ts';
import { positionOf } from '../../../src/domain/cursor.ts';
import type { ListQuery } from '../../../src/domain/list-query.ts';
import { type SqliteList, SqliteLists } from '../../../src/storage/sqlite/lists.ts';
import { toPost, toUser } from '../../../src/storage/sqlite/rows.ts';
import { openSqliteStore } from '../../../src/storage/sqlite/store.ts';
import { temporaryFolder } from '../temporary.ts';

const user = { id: 5, name: 'Ada', role: 'admin' };
const post = { id: 5, userId: 1, title: 'title', body: '' };

// Within one role, either has the names in order.
const byRoleAndName = ['users_by_role_name', 'users_by_role_desc_name'];

/** The indexes that serve a query's pages. */
const userPlans: readonly (readonly [query: string, indexes: readonly string[]])[] = [
  ['', ['INTEGER PRIMARY KEY']],
  ['sort=-id', ['INTEGER PRIMARY KEY']],
  ['sort=name', ['users_by_name']],
  ['sort=name,-id', ['users_by_name']],
  ['sort=-name', ['users_by_name']],
  ['sort=-name,-id', ['users_by_name']],
  ['sort=role', ['users_by_role']],
  ['sort=-role', ['users_by_role']],
  ['sort=role,name', byRoleAndName],
  ['sort=-role,name', byRoleAndName],
  ['sort=role,-name', byRoleAndName],
  ['sort=-role,-name', byRoleAndName],
  ['role=admin', ['users_by_role']],
  ['role=admin&sort=-id', ['users_by_role']],
  ['role=admin&sort=role', ['users_by_role']],
  ['role=admin&sort=-role', ['users_by_role']],
  ['role=admin&sort=name', byRoleAndName],
  ['role=admin&sort=-name', byRoleAndName],
  // The role has no say in the order.
  ['role=admin&sort=name,-role', byRoleAndName],
  ['role=admin&sort=-name,role,-id', byRoleAndName],
];
const postPlans: typeof userPlans = [
  ['', ['posts_by_user']],
  ['sort=-id', ['posts_by_user']],
  ['sort=title', ['posts_by_user_title']],
  ['sort=-title', ['posts_by_user_title']],
];

describe('query plans of SQLite', () => {
  let db: DatabaseSync;
  /** The statements that are prepared, in order. */
  let statements: string[];
  before(async () => {
    const path = join(temporaryFolder(), 'users.db');
    await (await openSqliteStore(path)).close();
    db = new DatabaseSync(path);
    const prepare = db.prepare.bind(db);
    db.prepare = (sql) => {
      statements.push(sql);
      return prepare(sql);
    };
    statements = [];
    // More namesakes of one role than a page has rows.
    const insertUser = db.prepare("INSERT INTO users (name, role) VALUES ('Ada', 'admin')");
    const insertPost = db.prepare("INSERT INTO posts (user_id, title, body) VALUES (1, 'title', '')");
    for (let i = 0; i < 50; i += 1) for (const insert of [insertUser, insertPost]) insert.run();
  });
  after(() => db.close());

  function planOf(sql: string): string[] {
    const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
    return steps.map((row) => String(row['detail']));
  }

  /** Reads a first page, a second one and one behind a row, and looks at the plan of each statement. */
  function check<Field extends string, Row extends Partial<Record<Field | 'id', string | number>>>(
    list: SqliteList<Row>,
    { sort, limit }: ListQuery<Field>,
    behind: Row,
    indexes: readonly string[],
  ): void {
    statements = [];
    const lists = new SqliteLists(db);
    lists.read(list, sort, limit + 1, { offset: 0 });
    lists.read(list, sort, limit + 1, { offset: limit });
    lists.read(list, sort, limit + 1, { after: positionOf(behind, sort) });
    const selects = statements.filter((sql) => sql.startsWith('SELECT'));
    assert.ok(selects.length >= 2);
    for (const sql of selects) {
      const [step = '', ...more] = planOf(sql);
      const shown = `${sql}\n${step}\n${more.join('\n')}`;
      assert.deepEqual(more, [], shown);
      assert.match(step, /^(SCAN|SEARCH) (users|posts)/, shown);
      const index = / USING (?:COVERING )?(?:INDEX )?(INTEGER PRIMARY KEY|\w+)/.exec(step)?.[1];
      // A scan without an index goes by rowid, which is the id.
      assert.ok(indexes.includes(index ?? 'INTEGER PRIMARY KEY'), shown);
    }
  }

  const users = { table: 'users', columns: 'id, name, role', toRow: toUser };
  for (const [query, indexes] of userPlans) {
    it(`users, ${query || 'by default'}: each step along an index, nothing sorted`, () => {
      const parsed = userQuery(query);
      const filter = parsed.role === undefined ? {} : { role: parsed.role };
      check({ ...users, filter }, parsed, user, indexes);
    });
  }

  const posts = {
    table: 'posts',
    columns: 'id, user_id, title, body',
    filter: { user_id: 1 },
    toRow: toPost,
  };
  for (const [query, indexes] of postPlans) {
    it(`posts of a user, ${query || 'by default'}: each step along an index, nothing sorted`, () => {
      check(posts, postQuery(query), post, indexes);
    });
  }

  it('the check itself refuses a sort that no index serves', () => {
    const query = userQuery('sort=name,role');
    assert.throws(
      () => check({ ...users, filter: {} }, query, user, ['users_by_name']),
      assert.AssertionError,
    );
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
      const steps = planOf(sql);
      assert.equal(steps.length, 1);
      assert.match(steps[0] ?? '', new RegExp(`^SEARCH .*${index}`));
    });
  }
});
