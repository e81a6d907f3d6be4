// Checks the guarantees with several service processes that share one database and one address:
//
//   npm run try:safety -- [--processes 2] [--clients 64] [--postgres | --pgbouncer | --haproxy]
//
// The last two put the PostgreSQL behind PgBouncer in transaction mode, or behind HAProxy. No response may be 500.
//
// Lost updates: every client appends its letter to the name of one user with GET and PUT with If-Match.
// Doubled POSTs: three clients send every creation at once. Skipped, repeated and misordered rows: clients follow
// the `next` links while others insert, rename and delete. At the end, one process is killed under load.
import { subscribe } from 'node:diagnostics_channel';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { noHaproxy, startHaproxy } from '../test/kit/haproxy.ts';
import { allUsers, create, Ledger } from '../test/kit/ledger.ts';
import { noPgBouncer, startPgBouncer } from '../test/kit/pgbouncer.ts';
import { startPostgres } from '../test/kit/postgres.ts';
import { type ServiceProcess, startProcess } from '../test/kit/process.ts';
import { endWith, readArguments } from './harness/arguments.ts';
import { Balancer } from './harness/balancer.ts';
import { fail, failIfEnded } from './harness/fail.ts';

const values = readArguments({
  processes: 2,
  clients: 64,
  postgres: false,
  pgbouncer: false,
  haproxy: false,
});
const { clients } = values;
if (clients < 1 || clients > 199) endWith('--clients must be from 1 to 199');
if (values.processes < 2) endWith('--processes must be at least 2');
const json = { 'content-type': 'application/json' };

async function send(method: string, url: string, body: unknown, headers = {}): Promise<Response> {
  return await fetch(url, { method, headers: { ...json, ...headers }, body: JSON.stringify(body) });
}

/** A name has at most 200 letters, so 64 clients can append three each. */
async function checkLostUpdates(url: string): Promise<object> {
  const created = await send('POST', `${url}/users`, { name: '-' });
  const user = `${url}${created.headers.get('location')}`;
  const appends = Math.floor(199 / clients);
  const letters = Array.from({ length: clients }, (_, i) => String.fromCodePoint(0x4e00 + i));
  let refused = 0;
  const append = async (letter: string): Promise<void> => {
    for (let done = 0; done < appends; ) {
      const read = await fetch(user);
      if (read.status !== 200) throw new Error(`GET returned ${read.status}: ${await read.text()}`);
      const { name }: { name: string } = JSON.parse(await read.text());
      const tag = read.headers.get('etag') ?? '';
      const written = await send('PUT', user, { name: name + letter }, { 'if-match': tag });
      const answer = await written.text();
      if (written.status === 200) done += 1;
      else if (written.status === 412) refused += 1;
      else throw new Error(`PUT returned ${written.status}: ${answer}`);
    }
  };
  await Promise.all(letters.map(append));
  const { name }: { name: string } = JSON.parse(await (await fetch(user)).text());
  const lost = letters.filter((letter) => name.split(letter).length - 1 !== appends).length;
  return { acknowledged: clients * appends, refused412: refused, clientsWithLostUpdates: lost };
}

async function checkDoubledPosts(url: string): Promise<object> {
  const before = (await allUsers(url)).length;
  const ledger = new Ledger();
  for (let i = 0; i < 300; i += 1) ledger.add();
  const retries = async (intent: (typeof ledger.intents)[number]): Promise<void> => {
    while ((await create(url, intent)) !== 'acknowledged') await sleep(5);
  };
  for (const intent of ledger.intents) {
    const ids = await Promise.all(
      [1, 2, 3].map(async () => {
        const own = { ...intent };
        await retries(own);
        return own.id;
      }),
    );
    if (new Set(ids).size !== 1) throw new Error(`one key created the ids ${ids}`);
    intent.id = ids[0] ?? 0;
  }
  const users = await allUsers(url);
  return { ...ledger.compare(users), sent: 900, created: users.length - before };
}

async function checkSkippedRows(url: string): Promise<object> {
  const staying = new Map<number, string>();
  for (let i = 0; i < 300; i += 1) {
    const { id }: { id: number } = JSON.parse(
      await (await send('POST', `${url}/users`, { name: `stay ${i % 7}`, role: 'walker' })).text(),
    );
    staying.set(id, `stay ${i % 7}`);
  }
  let stop = false;
  const disturb = async (): Promise<void> => {
    while (!stop) {
      const response = await send('POST', `${url}/users`, {
        name: `stay ${Math.random() * 7}`,
        role: 'walker',
      });
      const user = `${url}${response.headers.get('location')}`;
      await (await send('PATCH', user, { name: `went ${Math.random()}` })).arrayBuffer();
      await (await fetch(user, { method: 'DELETE' })).arrayBuffer();
    }
  };
  const disturbing = [disturb(), disturb(), disturb(), disturb()];
  const sorts = ['id', '-id', 'name', '-name', 'role,-name', '-role,name', 'name,-id'];
  let [walks, skipped, repeated, misordered] = [0, 0, 0, 0];
  for (const sort of sorts) {
    const expected = sorted(staying, sort);
    for (const limit of [1, 7, 100]) {
      const found: number[] = [];
      let path: string | undefined = `/users?role=walker&sort=${sort}&limit=${limit}`;
      while (path !== undefined) {
        const response: Response = await fetch(url + path);
        const page: { id: number }[] = JSON.parse(await response.text());
        found.push(...page.map(({ id }) => id).filter((id) => staying.has(id)));
        path = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
      }
      walks += 1;
      const seen = new Set(found);
      skipped += expected.length - seen.size;
      repeated += found.length - seen.size;
      if (`${[...seen]}` !== `${expected.filter((id) => seen.has(id))}`) misordered += 1;
    }
  }
  stop = true;
  await Promise.all(disturbing);
  return { walks, rowsThatStayed: staying.size, skipped, repeated, misordered };
}

/** The ids in the order of a sort. All users have the same role. The last field decides the direction of equal names. */
function sorted(nameOf: ReadonlyMap<number, string>, sort: string): number[] {
  const byName = sort.includes('-name') ? -1 : sort.includes('name') ? 1 : 0;
  const byId = sort.split(',').at(-1)?.startsWith('-') ? -1 : 1;
  const users = [...nameOf].toSorted(
    ([a, one], [b, other]) => byName * (one < other ? -1 : Number(one > other)) || byId * (a - b),
  );
  return users.map(([id]) => id);
}

/** Runs creations while one process is killed. Its connections break, and the clients retry with another process. */
async function checkKilledProcess(url: string, victim: ServiceProcess | undefined): Promise<object> {
  const ledger = new Ledger();
  const load = async (): Promise<void> => {
    for (let i = 0; i < 40; i += 1) {
      const intent = ledger.add();
      while ((await create(url, intent)) !== 'acknowledged') await sleep(5);
    }
  };
  const loading = Promise.all(Array.from({ length: 16 }, load));
  while (ledger.acknowledged.length < 200) await Promise.race([loading, sleep(1)]);
  if (victim !== undefined) failIfEnded('the process to kill', victim.child);
  await victim?.end('SIGKILL');
  await loading;
  return ledger.compare(await allUsers(url));
}

const missing = (values.pgbouncer && noPgBouncer) || (values.haproxy && noHaproxy);
if (missing) {
  console.log(`skipped: ${missing}`);
  process.exit();
}
const statuses: Record<number, number> = {};
subscribe('undici:request:headers', (message) => {
  const { statusCode } = (message as { response: { statusCode: number } }).response;
  statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
});
await using cleanups = new AsyncDisposableStack();
const after = (end: () => Promise<void>) => cleanups.defer(end);
const folder = await mkdtemp(join(tmpdir(), 'safety-'));
after(() => rm(folder, { recursive: true }));

async function openDatabase(): Promise<string> {
  if (!values.postgres && !values.pgbouncer && !values.haproxy) return `sqlite:${join(folder, 'users.db')}`;
  const postgres = await startPostgres();
  after(() => postgres.close());
  const url = await postgres.createDatabase();
  if (values.pgbouncer) return (await startPgBouncer(after, url)).through(url);
  return values.haproxy ? (await startHaproxy(after, url)).through(url) : url;
}

const database = await openDatabase();
const servers: ServiceProcess[] = [];
for (let i = 0; i < values.processes; i += 1)
  servers.push(await startProcess({ after }, ['--database', database]));
const balancer = new Balancer(() => servers.map(({ http }) => Number(new URL(http).port)));
after(async () => balancer.close());
const url = await balancer.listen();
const checks = {
  lostUpdates: () => checkLostUpdates(url),
  doubledPosts: () => checkDoubledPosts(url),
  skippedRows: () => checkSkippedRows(url),
  killedProcess: () => checkKilledProcess(url, servers[0]),
};
for (const [name, check] of Object.entries(checks)) {
  const report = await check();
  console.log(`${name} ${JSON.stringify(report)}`);
  const bad = ['lost', 'doubled', 'reusedIds', 'skipped', 'repeated', 'misordered', 'clientsWithLostUpdates'];
  for (const [figure, n] of Object.entries(report)) if (bad.includes(figure) && n > 0) fail(`${n} ${figure}`);
}
console.log(`statuses ${JSON.stringify(statuses)}`);
if (statuses[500] !== undefined) fail(`${statuses[500]} responses were 500`);
for (const { child } of servers.slice(1)) failIfEnded('a process', child);
