// Kills the service with SIGKILL at random moments under load, starts it again, and checks that every
// acknowledged user exists exactly once, and that no id was assigned twice:
//
//   npm run try:crash -- [--rounds 100] [--connections 32] [--postgres]
//
// With --postgres, every other round also kills the database server.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { createProgress } from '../src/commands/progress.ts';
import { allUsers, create, type Intent, Ledger } from '../test/kit/ledger.ts';
import { startPostgres } from '../test/kit/postgres.ts';
import { startProcess } from '../test/kit/process.ts';
import { readArguments } from './harness/arguments.ts';
import { failIfEnded } from './harness/fail.ts';

const {
  rounds: given,
  connections,
  postgres,
} = readArguments({ rounds: 0, connections: 32, postgres: false });
const rounds = given || (postgres ? 20 : 100);
// Long enough for group commits to form, and short enough that most kills interrupt one.
const [minRunMs, maxRunMs] = [100, 1_000];
const refusedPauseMs = 20;

interface Database {
  readonly url: string;
  /** Kills the database server like a power failure. Resolves when it runs again. */
  crash(): Promise<void>;
  check(): string;
  close(): Promise<void>;
}

async function sqliteDatabase(): Promise<Database> {
  const folder = await mkdtemp(join(tmpdir(), 'crash-'));
  const file = join(folder, 'users.db');
  return {
    url: `sqlite:${file}`,
    crash: async () => undefined,
    check() {
      const db = new DatabaseSync(file, { readOnly: true });
      const { integrity_check: verdict } = { ...db.prepare('PRAGMA integrity_check').get() };
      db.close();
      return String(verdict);
    },
    close: () => rm(folder, { recursive: true }),
  };
}

async function postgresDatabase(): Promise<Database> {
  const postgres = await startPostgres();
  return {
    url: await postgres.createDatabase(),
    async crash() {
      await postgres.server.stop('immediate');
      await postgres.server.start();
    },
    check: () => 'ok',
    close: () => postgres.close(),
  };
}

/** One connection creates users until the server is killed. It first retries creations without a response. */
async function client(url: string, ledger: Ledger, unanswered: Intent[]): Promise<void> {
  for (;;) {
    const intent = unanswered.pop() ?? ledger.add();
    const outcome = await create(url, intent);
    if (outcome === 'acknowledged') continue;
    unanswered.push(intent);
    if (outcome === 'gone') return;
    await sleep(refusedPauseMs);
  }
}

await using cleanups = new AsyncDisposableStack();
const owner = { after: (end: () => Promise<void>) => cleanups.defer(end) };
const database = postgres ? await postgresDatabase() : await sqliteDatabase();
owner.after(() => database.close());
const ledger = new Ledger();
const unanswered: Intent[] = [];
const progress = createProgress(process.stderr, 'crash', rounds);
let badChecks = 0;
const start = () => startProcess(owner, ['--database', database.url]);
for (let round = 1; round <= rounds; round += 1) {
  const { child, http, end } = await start();
  const clients = Promise.all(Array.from({ length: connections }, () => client(http, ledger, unanswered)));
  // A wrong response to a client ends the run at once.
  await Promise.race([clients, sleep(minRunMs + Math.random() * (maxRunMs - minRunMs))]);
  const databaseCrash = round % 2 === 0 ? database.crash() : undefined;
  failIfEnded(`round ${round}: the service`, child);
  await end('SIGKILL');
  await Promise.all([clients, databaseCrash]);
  if (database.check() !== 'ok') badChecks += 1;
  progress.update(round);
}
progress.finish();
const { http, end } = await start();
// A client without a response retries. The creation must happen once, even if the first attempt succeeded.
const retried = unanswered.length;
for (const intent of unanswered) {
  if ((await create(http, intent)) !== 'acknowledged') throw new Error('a retry was not acknowledged');
}
const report = ledger.compare(await allUsers(http));
await end();
console.log(JSON.stringify({ rounds, connections, ...report, retried, badChecks }));
if (report.lost + report.doubled + report.reusedIds + badChecks > 0) process.exitCode = 1;
