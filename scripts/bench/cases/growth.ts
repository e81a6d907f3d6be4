import assert from 'node:assert/strict';
import { constants, copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { formatCursor } from '../../../src/rest/cursor.ts';
import type { Case, CaseResult, ServerContestant } from '../case.ts';
import { answersJson, keepsUser } from '../check.ts';
import { dataFile, listedRole, spreadIds } from '../data.ts';
import type { LoadRequest } from '../load/types.ts';
import { measureThroughput } from '../measure.ts';
import { toUser, type UserRow } from '../peers/database.ts';
import { median } from '../statistics.ts';
import { type Subject, service } from '../subject.ts';
import { newUsers } from './users.ts';

const sizes = [1_000, 100_000, 10_000_000];
const connections = 64;
const places = 5_000;
// Cost is the inverse of throughput: at most 1.2 times the cost is this much of the throughput.
const atLeast = 1 / 1.2;

const byName = [
  { field: 'name', descending: false },
  { field: 'id', descending: false },
];
const userById = 'SELECT id, name, role FROM users WHERE id = ?';

interface Growth {
  readonly requests: readonly LoadRequest[];
  readonly check: (subject: Subject) => Promise<void>;
}

interface Data {
  readonly file: string;
  readonly db: DatabaseSync;
  /** Users from all over the file. */
  readonly sample: readonly UserRow[];
}

interface GrowthPlan {
  readonly name: string;
  readonly title: string;
  /** Its line in the picture. */
  readonly line: string;
  /** Whether the file changes, and so has to be a copy. */
  readonly writes?: boolean;
  /** Whether the design sets a bar for it. */
  readonly hasBar?: boolean;
  readonly plan: (data: Data) => Growth;
}

const label = (users: number) => `${users.toLocaleString('en')} users`;

export const growth: readonly Case[] = [
  {
    name: 'growth-get',
    title: 'GET /users/{id} as the data grows',
    line: 'GET',
    hasBar: true,
    plan: ({ sample }: Data) => ({
      requests: sample.map(({ id }) => ({ path: `/users/${id}` })),
      check: answersJson(`/users/${sample[0]?.id}`, sample[0]),
    }),
  },
  {
    name: 'growth-first',
    title: 'a first page by name, as the data grows',
    line: 'first page',
    plan: ({ db }: Data) => firstPages(db, ['sort=name']),
  },
  {
    name: 'growth-next',
    title: 'a step along "next", at any depth, sorted by name',
    line: 'next, at any depth',
    hasBar: true,
    plan: ({ db, sample }: Data) => steps(db, sample),
  },
  {
    name: 'growth-filter',
    title: 'first pages, filtered and not, by each sort key in both directions',
    line: 'filter and sort',
    plan: ({ db }: Data) => {
      const sorts = ['id', '-id', 'name', '-name', 'role', '-role'].map((sort) => `sort=${sort}`);
      return firstPages(db, [...sorts, ...sorts.slice(0, 4).map((sort) => `role=${listedRole}&${sort}`)]);
    },
  },
  {
    name: 'growth-post',
    title: 'POST /users as the data grows',
    line: 'POST',
    writes: true,
    plan: ({ file }: Data) => ({ requests: newUsers, check: keepsUser(file) }),
  },
].map(growthCase);

function growthCase({ name, title, line, writes = false, hasBar = false, plan }: GrowthPlan): Case {
  return {
    name,
    title,
    async run(context) {
      const contestants: ServerContestant[] = [];
      for (const users of sizes.filter((size) => size <= context.maxUsers)) {
        let file = await dataFile(context.dataFolder, users);
        if (writes) {
          const copy = join(context.folder, `${name}-${users}.db`);
          copyFileSync(file, copy, constants.COPYFILE_FICLONE);
          file = copy;
        }
        const { requests, check } = withData(file, users, plan);
        const program = service(['--database', `sqlite:${file}`]);
        contestants.push({ name: label(users), program, load: { connections, requests }, check });
      }
      const [smallest = '', ...larger] = contestants.map((one) => one.name);
      const bars = hasBar ? larger.map((ours) => ({ ours, theirs: smallest, atLeast })) : [];
      const load = { connections, requests: [] };
      const result = await measureThroughput({ name, title, load, contestants, bars }, context);
      return { ...result, curves: [curve(line, result)] };
    },
  };
}

function curve(line: string, { series }: CaseResult) {
  const costs = series.map(({ cpuMicros = [] }) => median(cpuMicros));
  return {
    chart: 'CPU time of a request as the data grows, 1 at 1,000 users',
    line,
    x: series.map(({ name }) => name.replace(' users', '')),
    y: costs.map((cost) => cost / (costs[0] ?? cost)),
  };
}

function withData<T>(file: string, users: number, use: (data: Data) => T): T {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const get = db.prepare(userById);
    return use({ file, db, sample: spreadIds(users, places).map((id) => toUser(get.get(id))) });
  } finally {
    db.close();
  }
}

function firstPages(db: DatabaseSync, queries: readonly string[]): Growth {
  const requests = queries.map((query) => ({ path: `/users?${query}&limit=20` }));
  const [first] = queries;
  const order = first?.replace('sort=', '');
  const expected = toUser(db.prepare(`SELECT id, name, role FROM users ORDER BY ${order}, id LIMIT 1`).get());
  return { requests, check: answersFirst(requests[0]?.path ?? '', expected) };
}

function steps(db: DatabaseSync, sample: readonly UserRow[]): Growth {
  const requests = sample.map(({ id, name }) => {
    const cursor = formatCursor({}, byName, [name, id]);
    return { path: `/users?sort=name&limit=20&cursor=${cursor}` };
  });
  const [first] = sample;
  if (first === undefined) throw new Error('no users');
  const behind = 'SELECT id, name, role FROM users WHERE (name, id) > (?, ?) ORDER BY name, id LIMIT 1';
  const expected = toUser(db.prepare(behind).get(first.name, first.id));
  return { requests, check: answersFirst(requests[0]?.path ?? '', expected) };
}

function answersFirst(path: string, expected: unknown) {
  return async ({ http }: Subject): Promise<void> => {
    const [first] = (await (await fetch(http + path)).json()) as unknown[];
    assert.deepEqual(first, expected);
  };
}
