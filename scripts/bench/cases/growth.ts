import { constants, copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { formatCursor } from '../../../src/domain/list-query.ts';
import { answersJson, keepsUser } from '../check.ts';
import { dataFile, spreadIds } from '../data.ts';
import { openDatabase } from '../peers/database.ts';
import { serviceOver } from '../peers.ts';
import type { Case } from '../result.ts';
import { contest, type Work } from '../turns.ts';
import { newUser } from './writes.ts';

const sizes = [1_000, 100_000, 10_000_000];
const connections = 32;
const sampleSize = 5_000;
const byName = [
  { field: 'name', descending: false },
  { field: 'id', descending: false },
];

/** The same work with more and more users. The file with the most users is the first series. */
export const growth: Case = {
  name: 'growth',
  title: 'the same work as the data grows',
  long: true,
  async run(context) {
    const files = new Map<string, string>();
    for (const users of sizes.filter((size) => size <= context.maxUsers).reverse()) {
      const copy = join(context.folder, `growth-${users}.db`);
      copyFileSync(await dataFile(context.dataFolder, users), copy, constants.COPYFILE_FICLONE);
      files.set(`${users.toLocaleString('en')} users`, copy);
    }
    const samples = new Map([...files].map(([name, file]) => [name, sampleOf(file)]));
    const sampleBy = (name: string) => samples.get(name) ?? [];
    const bars = [{ theirs: '1,000 users', atLeast: 0.85 }];
    const works: Work[] = [
      {
        name: 'growth-get',
        title: 'GET /users/{id} as the data grows',
        load: (name) => ({ connections, paths: sampleBy(name).map(({ id }) => `/users/${id}`) }),
        check: (subject, name) => answersJson(`/users/${sampleBy(name)[0]?.id}`, sampleBy(name)[0])(subject),
        bars,
      },
      {
        name: 'growth-next',
        title: 'a step along "next" at any depth, sorted by name',
        load: (name) => ({
          connections,
          paths: sampleBy(name).map((user) => {
            return `/users?sort=name&limit=20&cursor=${formatCursor({}, byName, [user.name, user.id])}`;
          }),
        }),
        check: async () => undefined,
        bars,
      },
      {
        name: 'growth-post',
        title: 'POST /users as the data grows',
        load: newUser,
        check: (subject, name) => keepsUser(subject, files.get(name) ?? ''),
        bars,
      },
    ];
    const contestants = [...files].map(([name, file]) => ({ ...serviceOver(file), name }));
    return await contest(contestants, works, context);
  },
};

/** Users from all parts of a file. */
function sampleOf(file: string) {
  const db = new DatabaseSync(file, { readOnly: true });
  const last = Number(db.prepare('SELECT max(id) AS id FROM users').get()?.['id']);
  db.close();
  const { getUser } = openDatabase(file);
  return spreadIds(last, sampleSize).flatMap((id) => getUser(id)?.user ?? []);
}
