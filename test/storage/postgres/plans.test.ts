import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { userFilters, userQuery } from '../../../src/conformance/fixture.ts';
import { type NestedKind, nestedKinds } from '../../../src/conformance/kinds.ts';
import type { PageStart, Position } from '../../../src/domain/list-query.ts';
import { userFields } from '../../../src/domain/user.ts';
import { readPage } from '../../../src/storage/postgres/changes.ts';
import { postgresReads } from '../../../src/storage/postgres/reads.ts';
import { readState } from '../../../src/storage/postgres/settled.ts';
import { openPostgresStore } from '../../../src/storage/postgres/store.ts';
import { tables } from '../../../src/storage/tables.ts';
import { openTestPostgres } from '../../kit/postgres.ts';
import { openSession } from '../../kit/postgres-session.ts';

// Enough for 21 rows of three ranges. The table alone has more than 500 blocks of 8 KiB.
const maxBlocks = 70;

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

const postgres = await openTestPostgres();
const url = await postgres.createDatabase();
const client = new pg.Client({ connectionString: url });
after(async () => {
  await client.end();
  await postgres.close();
});

before(async () => {
  await (await openPostgresStore(url)).close();
  await client.connect();
  // Creating the indexes again takes half the processor time of adding each row to them, and so does not checking
  // the user of each post.
  const indexes = await client.query<{ name: string; definition: string }>(`
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
    WHERE schemaname = 'public' AND indexname NOT LIKE '%_pkey'`);
  for (const { name } of indexes.rows) await client.query(`DROP INDEX ${name}`);
  await client.query('SET session_replication_role = replica');
  // Guests and users with equal names are spread evenly up to id 40,000. After the last one, a scan along
  // the id would read all remaining rows.
  await client.query(`
    INSERT INTO users (name, role) SELECT
      CASE WHEN i < 40000 AND i % 4 = 0 THEN 'same' ELSE 'user ' || md5(i::text) END,
      CASE WHEN i < 40000 AND i % 3 = 0 THEN 'guest' WHEN i % 3 = 1 THEN 'admin' ELSE '' END
    FROM generate_series(1, 60000) AS i`);
  for (const { kind, draftOf, text } of nestedKinds) {
    const draft = Object.entries(draftOf(''));
    const fields = draft.map(([field]) => field);
    const values = draft.map(([field, value]) => (field === text ? "'text ' || i % 1000" : `'${value}'`));
    await client.query(`
      INSERT INTO ${kind} (user_id, ${fields})
      SELECT CASE WHEN i < 90000 AND i % 2 = 0 THEN 1 ELSE i END, ${values}
      FROM generate_series(1, 100000) AS i`);
  }
  for (const { definition } of indexes.rows) await client.query(definition);
  await client.query('RESET session_replication_role; ANALYZE');
});

const plans: PlanNode[] = [];
/** Statements of several ranges that the server plans for each call, which takes longer than running them. */
const replanned: string[] = [];
let statements = 0;

/** Explains the statements of the store. They are prepared and run often, so the server may reuse a plan. */
const pool: Parameters<typeof postgresReads>[0] = {
  async read(sql, values) {
    statements += 1;
    const name = `statement_${statements}`;
    const literals = values.map((value) =>
      typeof value === 'number'
        ? value
        : pg.escapeLiteral(typeof value === 'object' ? `{${value}}` : String(value)),
    );
    const execute = `EXECUTE ${name}${values.length > 0 ? `(${literals.join(', ')})` : ''}`;
    await client.query(`PREPARE ${name} AS ${sql.text}`);
    for (let i = 0; i < 6; i += 1) await client.query(execute);
    const explained = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${execute}`);
    plans.push(explained.rows[0]['QUERY PLAN'][0].Plan);
    const kept = 'SELECT FROM pg_prepared_statements WHERE name = $1 AND generic_plans > 0';
    const isPlannedAnew = (await client.query(kept, [name])).rowCount !== 1;
    if (isPlannedAnew && sql.text.includes('UNION ALL')) replanned.push(sql.text);
    return (await client.query(execute)).rows;
  },
};
const { operations } = postgresReads(pool, { ping: async () => undefined });
const { users } = operations;

interface Cost {
  readonly blocks: number;
  readonly nodes: readonly string[];
}

async function cost(call: () => unknown): Promise<Cost> {
  plans.length = 0;
  replanned.length = 0;
  await call();
  const typesOf = (node: PlanNode): string[] => [node['Node Type'], ...(node.Plans ?? []).flatMap(typesOf)];
  const blocks = plans.map((plan) => plan['Shared Hit Blocks'] + plan['Shared Read Blocks']);
  return { blocks: blocks.reduce((sum, n) => sum + n, 0), nodes: plans.flatMap(typesOf) };
}

function assertFew({ blocks, nodes }: Cost, limit = maxBlocks): void {
  assert.ok(blocks <= limit, `${blocks} blocks by ${nodes.join(', ')}`);
  assert.deepEqual(replanned, [], 'the statement must have one plan for all values');
}

const lists: readonly [parameters: string, position: Position][] = [
  ['', [50_000]],
  ['sort=-id', [50_000]],
  ['sort=name', ['same', 39_990]],
  ['sort=-name', ['same', 39_990]],
  ['sort=role', ['guest', 39_990]],
  ['sort=-role', ['guest', 39_990]],
  ['sort=role,name', ['guest', 'same', 39_990]],
  ['sort=role,-name', ['guest', 'same', 39_990]],
  ['sort=-role,name', ['guest', 'same', 39_990]],
  ['sort=-role,-name', ['guest', 'same', 39_990]],
  ['role=guest', [39_990]],
  ['role=guest&sort=-id', [100]],
  ['role=guest&sort=name', ['same', 39_990]],
  ['role=guest&sort=-name', ['same', 39_990]],
  ['role=guest&sort=-name', ['user', 39_990]],
  ['name=sa&sort=name', ['same', 39_990]],
  ['name=user&sort=name', ['user f', 39_990]],
  ['name=user&sort=-name', ['user 1', 39_990]],
  ['name=user&role=guest&sort=name', ['user f', 39_990]],
  ['name=user&role=guest&sort=-name', ['user 1', 39_990]],
  ['name=user%20abc', [1]],
  ['id=1,5,59999', [2]],
  ['id=1,5,59999&role=guest&sort=name', ['a', 1]],
  ['role=nobody', [1]],
  ['role=nobody&sort=name', ['same', 1]],
];

/** Lists by each field that the ones above do not sort or filter by. */
const otherLists: typeof lists = [
  ...Object.keys(userFields).flatMap((field) => [`sort=${field}`, `sort=-${field}`]),
  ...Object.entries(userFilters).map(([field, value]) => `${field}=${value}&sort=${field}`),
]
  .filter((parameters) => !/sort=-?(id|name|role)$/.test(parameters))
  .map((parameters) => [
    parameters,
    userQuery(parameters).sort.map(({ field }) => (field === 'id' ? 50_000 : '')),
  ]);

const nestedLists = ({
  fields,
  text,
  draftOf,
}: NestedKind): readonly [parameters: string, position: Position][] => [
  ['', [89_990]],
  ['sort=-id', [100]],
  [`sort=${text}`, ['text 998', 89_990]],
  [`sort=-${text}`, ['text 998', 89_990]],
  [`${text}=text&sort=${text}`, ['text 998', 89_990]],
  [`${text}=text&sort=-${text}`, ['text 998', 89_990]],
  // All rows have the same value of each other field.
  ...Object.keys(fields)
    .filter((field) => field !== 'id' && field !== text)
    .flatMap((field) =>
      ['', '-'].map((sign): [string, Position] => [
        `sort=${sign}${field}`,
        [Object(draftOf(''))[field], 89_990],
      ]),
    ),
];

describe('pages of 60,000 users', () => {
  for (const [parameters, position] of [...lists, ...otherLists]) {
    const query = userQuery(parameters);
    it(`the first page of users with "${parameters}" is served by an index`, async () => {
      assertFew(await cost(() => users.list(query)));
    });

    it(`the page of users after ${position} with "${parameters}" is served by an index`, async () => {
      assertFew(await cost(() => users.list({ ...query, start: { after: position } })));
    });
  }
});

for (const nested of nestedKinds) {
  const { kind } = nested;
  describe(`pages of one user's 45,000 ${kind}`, () => {
    for (const [parameters, position] of nestedLists(nested)) {
      const query = nested.query(parameters);
      const filter = { userId: 1, ...query.filter };
      const page = (start: PageStart) => operations[kind].list({ ...query, filter, start });
      it(`the first page of ${kind} with "${parameters}" is served by an index`, async () => {
        assertFew(await cost(() => page(query.start)));
      });

      it(`the page of ${kind} after ${position} with "${parameters}" is served by an index`, async () => {
        assertFew(await cost(() => page({ after: position })));
      });
    }
  });
}

it('each index of users contains all columns of a list, so a page does not read the table', async () => {
  const { rows } = await client.query<{ name: string; columns: string[] }>(`
    SELECT relname AS name, ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = indexrelid) AS columns
    FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE indrelid = 'users'::regclass AND NOT indisprimary`);
  assert.ok(rows.length > 0);
  for (const { name, columns } of rows) {
    const missing = tables.users.listColumns.filter((column) => !columns.includes(column.name));
    assert.deepEqual(missing, [], name);
  }
});

it('a user is found with the primary key', async () => {
  assertFew(await cost(() => users.get([43_210])), 5);
});

it('the feed is read by its index, also by plans that are older than the first ANALYZE', async (t) => {
  const url = await postgres.createDatabase();
  await (await openPostgresStore(url)).close();
  const session = await openSession(t, url);
  await session.query('ALTER TABLE changes SET (autovacuum_enabled = off)');
  await session.query('SET plan_cache_mode = force_generic_plan');
  await session.query(`PREPARE state AS ${readState.text}`);
  await session.query(`PREPARE page AS ${readPage.text}`);
  const reads = ['EXECUTE state(0, true)', `EXECUTE page(0, 20000, 20, 20, '{user.created}', NULL)`];
  for (const read of reads) await session.query(read);
  await session.query(`
    INSERT INTO changes (type, user_id, record)
    SELECT 'user.created', i, to_json(repeat('x', 100)) FROM generate_series(1, 20000) AS i`);
  for (const read of reads) {
    const explained = await session.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${read}`);
    const plan: PlanNode = explained[0]?.['QUERY PLAN'][0].Plan;
    const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    // The table has more than 400 blocks, and a state reads the first 5,000 changes.
    assert.ok(blocks < 200, `${read} read ${blocks} blocks`);
  }
});
