import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { CursorSealer } from '../../../src/domain/cursor.ts';
import type { Case, Contestant } from '../case.ts';
import { dataFile, spreadIds } from '../data.ts';
import type { LoadRequest } from '../load/load.ts';
import { measureThroughput } from '../measure.ts';
import { toUser, type UserRow } from '../peers/database.ts';
import { type Subject, service } from '../subject.ts';

const sizes = [1_000, 100_000, 10_000_000];
const connections = 64;
const places = 5_000;
// Cost is the inverse of throughput: at most 1.2 times the cost is this much of the throughput.
const atLeast = 1 / 1.2;

// What cursors of the list of all users are sealed for, in SQLite's store.
const scope = 'users ';
const byName = [
  { field: 'name', descending: false },
  { field: 'id', descending: false },
];

const label = (users: number) => `${users.toLocaleString('en')} users`;

export const growthOfGet = growthCase(
  'growth-get',
  'GET /users/{id} as the data grows',
  async ({ sample }) => {
    const requests = sample.map(({ id }) => ({ path: `/users/${id}` }));
    return { requests, expected: sample[0] };
  },
);

export const growthOfNext = growthCase(
  'growth-next',
  'a step along "next", at any depth, sorted by name',
  async ({ db, sample }) => {
    const secret = db.prepare("SELECT value FROM meta WHERE name = 'cursor_secret'").get()?.['value'];
    if (!(secret instanceof Uint8Array)) throw new Error('the file has no cursor secret');
    const sealer = new CursorSealer(secret);
    const requests = sample.map(({ id, name }) => {
      const cursor = sealer.seal(scope, byName, [name, id]);
      return { path: `/users?sort=name&limit=20&cursor=${cursor}` };
    });
    const [first] = sample;
    if (first === undefined) throw new Error('no users');
    const behind = 'SELECT id, name, role FROM users WHERE (name, id) > (?, ?) ORDER BY name, id LIMIT 1';
    return { requests, expected: toUser(db.prepare(behind).get(first.name, first.id)) };
  },
);

interface Growth {
  readonly requests: readonly LoadRequest[];
  /** The user that the first request answers, alone or before others. */
  readonly expected: unknown;
}

interface Data {
  readonly db: DatabaseSync;
  /** Users from all over the file. */
  readonly sample: readonly UserRow[];
}

function growthCase(caseName: string, title: string, plan: (data: Data) => Promise<Growth>): Case {
  return {
    name: caseName,
    title,
    async run(context) {
      const contestants: Contestant[] = [];
      for (const users of sizes.filter((size) => size <= context.maxUsers)) {
        const file = await dataFile(context.dataFolder, users);
        const { requests, expected } = await withData(file, users, plan);
        contestants.push({
          name: label(users),
          program: service(['--database', `sqlite:${file}`]),
          load: { connections, requests },
          check: (subject) => answersFirst(subject, requests[0]?.path ?? '', expected),
        });
      }
      const [smallest, ...larger] = contestants.map(({ name }) => name);
      return await measureThroughput(
        {
          name: caseName,
          title,
          load: { connections, requests: [] },
          contestants,
          bars: larger.map((ours) => ({ ours, theirs: smallest ?? '', atLeast })),
        },
        context,
      );
    },
  };
}

async function withData<T>(file: string, users: number, use: (data: Data) => Promise<T>): Promise<T> {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    const get = db.prepare('SELECT id, name, role FROM users WHERE id = ?');
    return await use({ db, sample: spreadIds(users, places).map((id) => toUser(get.get(id))) });
  } finally {
    db.close();
  }
}

async function answersFirst({ http }: Subject, path: string, expected: unknown): Promise<void> {
  const answer: unknown = await (await fetch(http + path)).json();
  assert.deepEqual(Array.isArray(answer) ? answer[0] : answer, expected);
}
