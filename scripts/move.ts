// Moves a large store from SQLite to PostgreSQL and back with `users-service copy`. Reports the time, the
// maximum memory, and whether the last store equals the first:
//
//   npm run try:move -- [--users 1000000] [--posts 3000000] [--folder DIR]
//
// The folder needs about 1 GB of free space for each million posts, for three stores at once.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { createProgress } from '../src/commands/progress.ts';
import { openSqliteStore } from '../src/storage/sqlite/store.ts';
import { largeServer, startPostgres } from '../test/kit/postgres.ts';
import { readArguments } from './harness/arguments.ts';
import { memoryOf } from './harness/proc.ts';

const values = readArguments({ users: 1_000_000, posts: 3_000_000, folder: tmpdir() });
const counts = { users: values.users, posts: values.posts };
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const rowsPerStep = 50_000;
const sampleEveryMs = 100;

// The data has gaps between ids, versions above 1, missing roles and scripts other than Latin. A copy that
// loses any of these would have another checksum.
const insertUsers = `
  INSERT INTO users (id, name, role, version)
  WITH RECURSIVE rows (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM rows WHERE n < :last)
  SELECT n + n / 1000, printf('%s %d', CASE n % 3 WHEN 0 THEN '林小雨' WHEN 1 THEN 'Ada 👩🏽‍💻' ELSE 'Grace' END,
    n * 48271 % 999983), CASE n % 4 WHEN 0 THEN '' WHEN 1 THEN 'admin' ELSE 'member' END, 1 + n % 7
  FROM rows`;
const insertPosts = `
  INSERT INTO posts (id, user_id, title, body)
  WITH RECURSIVE rows (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM rows WHERE n < :last)
  SELECT n + n / 500, (SELECT id FROM users WHERE id >= n * 48271 % :users + 1 ORDER BY id LIMIT 1),
    printf('Post %d', n), printf('%.*c' || char(10) || '“%d”', n % 400, 'x', n)
  FROM rows`;

/** A SQLite file with the schema of the service, filled with SQL, because durable writes would take too long. */
async function makeSource(path: string): Promise<void> {
  await (await openSqliteStore(path)).close();
  const db = new DatabaseSync(path);
  db.exec('PRAGMA synchronous = OFF; PRAGMA cache_size = -500000');
  const progress = createProgress(process.stderr, 'make', counts.users + counts.posts);
  const fill = (sql: string, count: number, before: number, extra = {}): void => {
    const insert = db.prepare(sql);
    for (let first = 1; first <= count; first += rowsPerStep) {
      const last = Math.min(first + rowsPerStep - 1, count);
      // Numbers would be bound as floats, and the ids would be computed from floats.
      insert.run({ first: BigInt(first), last: BigInt(last), ...extra });
      progress.update(before + last);
    }
  };
  fill(insertUsers, counts.users, 0);
  fill(insertPosts, counts.posts, counts.users, { users: BigInt(counts.users) });
  progress.finish();
  // The last users are deleted. Their ids must not be reused after the move.
  db.exec("UPDATE sqlite_sequence SET seq = seq + 1000 WHERE name = 'users'");
  db.close();
}

interface Copied {
  readonly seconds: number;
  /** Resident memory at each quarter of the time, in MiB. */
  readonly quarters: readonly number[];
  /** The maximum resident memory in MiB, or 0 if the machine does not report it. */
  readonly peak: number;
  readonly line: string;
}

async function copy(from: string, to: string): Promise<Copied> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [main, 'copy', '--from', from, '--to', to], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const samples: number[] = [];
  let peak = 0;
  const mib = (figure: 'VmRSS' | 'VmHWM') => Math.round(memoryOf(child.pid, figure) / 2 ** 20);
  const sample = (): void => {
    try {
      if (mib('VmRSS') > 0) samples.push(mib('VmRSS'));
      peak = Math.max(peak, mib('VmHWM'));
    } catch {
      // The machine does not report it, or the process has just ended.
    }
  };
  const timer = setInterval(sample, sampleEveryMs);
  const exited = once(child, 'exit');
  const line = Buffer.concat(await child.stdout.toArray())
    .toString()
    .trim();
  const [code] = await exited;
  clearInterval(timer);
  if (code !== 0) throw new Error(`copy exited with ${code}`);
  const quarters = [0.25, 0.5, 0.75, 0.99].map((share) => samples[Math.floor(samples.length * share)] ?? 0);
  return { seconds: (performance.now() - startedAt) / 1000, quarters, peak, line };
}

function lastIds(path: string): string {
  const db = new DatabaseSync(path, { readOnly: true });
  const rows = db.prepare('SELECT name, seq FROM sqlite_sequence ORDER BY name').all();
  db.close();
  return JSON.stringify(rows);
}

const folder = await mkdtemp(join(values.folder, 'move-'));
const [first, last] = [join(folder, 'first.db'), join(folder, 'last.db')];
const postgres = await startPostgres(largeServer);
try {
  await makeSource(first);
  const between = await postgres.createDatabase();
  const checksums: string[] = [];
  for (const [what, from, to] of [
    ['SQLite -> PostgreSQL', `sqlite:${first}`, between],
    ['PostgreSQL -> SQLite', between, `sqlite:${last}`],
  ] as const) {
    const { seconds, quarters, peak, line } = await copy(from, to);
    const rate = Math.round((counts.users + counts.posts) / seconds).toLocaleString('en');
    console.log(
      `${what}: ${seconds.toFixed(0)} s, ${rate} records/s, checked; peak ${peak} MiB (${quarters.join(', ')})`,
    );
    console.log(`  ${line}`);
    checksums.push(line);
  }
  const same = checksums[0] === checksums[1] && lastIds(first) === lastIds(last);
  console.log(same ? 'the last store holds what the first did' : 'the stores differ');
  if (!same) process.exitCode = 1;
} finally {
  await postgres.close();
  await rm(folder, { recursive: true });
}
