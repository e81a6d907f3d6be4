import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { largeServer, startPostgres } from '../../../test/kit/postgres.ts';
import type { Case, Contestant, Measured } from '../case.ts';
import { answersJson } from '../check.ts';
import { commandExists } from '../cores.ts';
import { dataFile, listedRole, spreadIds, userRequests } from '../data.ts';
import type { LoadRequest } from '../load/types.ts';
import { measureThroughput } from '../measure.ts';
import { openDatabase, type UserRow } from '../peers/database.ts';
import { tell } from '../progress.ts';
import { service } from '../subject.ts';

const users = 100_000;
const connections = 32;
const processes = ['1', '3'];
const run = promisify(execFile);
const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

const notes = ['database, service and load share all cores'];

interface Work {
  readonly requests: readonly LoadRequest[];
  /** What the first of them is answered with. */
  readonly expected: unknown;
  /** What pgbench sends, by the name it is shown under. */
  readonly sql: Readonly<Record<string, string>>;
}

const list = `SELECT id, name, role FROM users WHERE role = '${listedRole}' ORDER BY name DESC, id`;

export const getFromPostgres = postgresCase('postgres-get', 'GET /users/{id} from PostgreSQL', (user) => ({
  requests: userRequests(users),
  expected: user(spreadIds(users, 1)[0] ?? 1),
  sql: {
    'pgbench, the same SQL': `\\set id random(1, ${users})\nSELECT id, name, role, version FROM users WHERE id = :id;\n`,
  },
}));

export const listFromPostgres = postgresCase(
  'postgres-list',
  'GET /users: 20 of a role by name, from PostgreSQL',
  (_user, page) => ({
    requests: [{ path: `/users?role=${listedRole}&sort=-name&limit=20` }],
    expected: page,
    sql: {
      'pgbench, the same SQL': `${list} LIMIT 21;\n`,
      // As PostgREST does it: the database writes the JSON.
      'pgbench, JSON from SQL': `SELECT coalesce(json_agg(page), '[]') FROM (${list} LIMIT 20) AS page;\n`,
    },
  }),
);

function postgresCase(
  name: string,
  title: string,
  plan: (user: (id: number) => UserRow | undefined, page: readonly UserRow[]) => Work,
): Case {
  return {
    name,
    title,
    async run(context) {
      const file = await dataFile(context.dataFolder, users);
      const database = openDatabase(file);
      const work = plan(database.getUser, database.listUsers(listedRole, 20));
      const postgres = await startPostgres(largeServer);
      try {
        const url = await postgres.createDatabase();
        tell(`${name}: copying ${users.toLocaleString('en')} users`);
        await run(process.execPath, [main, 'copy', '--from', `sqlite:${file}`, '--to', url]);
        await postgres.server.query('VACUUM ANALYZE', [], new URL(url).pathname.slice(1));
        const check = answersJson(work.requests[0]?.path ?? '', work.expected);
        const ours = processes.map((workers): Contestant => {
          const program = service(['--database', url, '--workers', workers]);
          return { name: `${workers} process${workers === '1' ? '' : 'es'}`, program, cores: 'both', check };
        });
        const { requests } = work;
        const contestants = [...ours, ...pgbench(work.sql, url, context.folder)];
        return await measureThroughput(
          { name, title, load: { connections, requests }, contestants, bars: [], notes },
          context,
        );
      } finally {
        await postgres.close();
      }
    },
  };
}

/** The database alone, driven by its own load generator: what no service in front of it can exceed. */
function pgbench(scripts: Work['sql'], url: string, folder: string): Contestant[] {
  if (!commandExists('pgbench')) {
    tell('pgbench is not installed: no ceiling');
    return [];
  }
  return Object.entries(scripts).map(([name, sql], i) => {
    const file = join(folder, `pgbench-${i}.sql`);
    writeFileSync(file, sql);
    return { name, measure: (seconds) => runPgbench(file, url, seconds) };
  });
}

async function runPgbench(file: string, url: string, seconds: number): Promise<Measured> {
  const flags = ['--no-vacuum', '--protocol=prepared', `--client=${connections}`, `--time=${seconds}`];
  const { stdout } = await run('pgbench', [...flags, `--file=${file}`, url]);
  const rate = /^tps = ([\d.]+)/m.exec(stdout)?.[1];
  if (rate === undefined || !/failed transactions: 0 /.test(stdout)) throw new Error(`pgbench:\n${stdout}`);
  return { perSecond: Number(rate) };
}
