// Stops the database of a service under load on both APIs, in three ways in turn, and checks that clients
// receive only "unavailable" during an outage:
//
//   npm run try:outage -- [--clients 8] [--down-ms 5000]
//
// It ends all sessions, crashes and restarts the server, and crashes the primary and promotes its synchronous
// standby behind the same address. The last line is a summary in JSON.
import { setTimeout as sleep } from 'node:timers/promises';
import { openForwarder } from '../test/kit/forwarder.ts';
import { usersClient } from '../test/kit/grpc.ts';
import { allUsers } from '../test/kit/ledger.ts';
import { OutageLoad, untilReady } from '../test/kit/outage-load.ts';
import { startPostgres } from '../test/kit/postgres.ts';
import { startProcess } from '../test/kit/process.ts';
import { readArguments } from './harness/arguments.ts';
import { post } from './harness/post.ts';

const { clients, 'down-ms': downMs } = readArguments({ clients: 8, 'down-ms': 5_000 });
const steadyMs = 1_000;
// The limits that an operator can expect: readiness shortly after the database, and no hanging call.
const readyLimitMs = 2_000;
const answerLimitMs = 5_000;

await using cleanups = new AsyncDisposableStack();
const owner = { after: (end: () => unknown) => cleanups.defer(async () => void (await end())) };
const postgres = await startPostgres();
owner.after(() => postgres.close());
const { server: primary } = postgres;
const database = new URL(await postgres.createDatabase()).pathname.slice(1);
const forwarder = await openForwarder(primary.port);
owner.after(() => forwarder.close());
const { child, http, grpc } = await startProcess(owner, [
  '--database',
  primary.url(database, forwarder.port),
]);
await post(`${http}/users`, { name: 'the first' });
const client = usersClient(owner, grpc);
const load = new OutageLoad({ child, http, client, clients });
const summary: Record<string, unknown> = {};

async function terminateSessions(): Promise<object> {
  let ended = 0;
  for (let round = 0; round < 5; round += 1) {
    ended += await primary.terminateBackends(database);
    await sleep(steadyMs / 2);
  }
  return { ended, readyMs: await untilReady(http, true) };
}

async function restartServer(): Promise<object> {
  await primary.stop('immediate');
  load.databaseIs('down');
  const unreadyMs = await untilReady(http, false);
  await sleep(downMs);
  load.databaseIs('up');
  await primary.start();
  return { unreadyMs, readyMs: await untilReady(http, true) };
}

async function failOver(): Promise<object> {
  const standby = await postgres.createStandby();
  await primary.commitOnStandby();
  await sleep(steadyMs);
  await primary.stop('immediate');
  load.databaseIs('down');
  const unreadyMs = await untilReady(http, false);
  await standby.promote();
  load.databaseIs('up');
  forwarder.moveTo(standby.port);
  return { unreadyMs, readyMs: await untilReady(http, true) };
}

for (const [name, phase] of Object.entries({ terminateSessions, restartServer, failOver })) {
  await sleep(steadyMs);
  load.report();
  const times = await phase();
  const { answers, slowestMs } = load.report();
  const readyMs = 'readyMs' in times ? Number(times.readyMs) : 0;
  if (readyMs > readyLimitMs) load.violations.add(`${name}: ready after ${readyMs} ms`);
  for (const [what, ms] of Object.entries(slowestMs)) {
    if (ms > answerLimitMs) load.violations.add(`${name}: ${what} took ${ms} ms`);
  }
  summary[name] = { ...times, slowestMs };
  console.log(`${name} ${JSON.stringify({ ...times, answers, slowestMs })}`);
}
await sleep(steadyMs);
await load.stop();
const { acknowledged, lost, doubled, reusedIds } = load.ledger.compare(await allUsers(http));
for (const [what, count] of Object.entries({ lost, doubled, reusedIds })) {
  if (count > 0) load.violations.add(`${count} ${what}`);
}
const violations = [...load.violations];
console.log(JSON.stringify({ ...summary, acknowledged, lost, doubled, reusedIds, violations }));
if (violations.length > 0) process.exitCode = 1;
