import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type ServiceProcess, startProcess } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { runTool } from '../support/tool.ts';

/** Polls until workers have reached a state. Shorter pauses would take the processor from these workers. */
export async function untilWorkers(condition: () => Promise<boolean>, what: string): Promise<void> {
  await until(condition, what, 60_000, 20);
}

/** A running service with workers. */
export interface Pool extends ServiceProcess {
  readonly folder: string;
}

/** Starts a service with two workers and a database of its own. */
export async function start(
  t: { after(close: () => Promise<void>): void },
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Pool> {
  const folder = temporaryFolder();
  const database = `sqlite:${folder}/users.db`;
  const running = await startProcess(t, ['--workers', '2', '--database', database, ...args], env);
  return { ...running, folder };
}

/** Creates a user, and resolves to its id. */
export async function create(http: string, name: string): Promise<number> {
  const response = await fetch(`${http}/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name }),
  });
  assert.equal(response.status, 201);
  return Number(((await response.json()) as { id: number }).id);
}

/** The running processes. The first process of a container may ignore those that have ended, which stay in the list. */
async function processes(): Promise<{ readonly pid: number; readonly parent: number }[]> {
  const { stdout } = await runTool('ps', ['-A', '-o', 'pid=,ppid=,stat=']);
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  return rows
    .filter(([, , stat]) => stat?.[0] !== 'Z')
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }));
}

/** The process ids of the running workers. Replace a missing one by NaN: a signal to 0 would end the tests. */
export async function workersOf({ child }: ServiceProcess): Promise<number[]> {
  return (await processes()).filter(({ parent }) => parent === child.pid).map(({ pid }) => pid);
}

/** Resolves when none of these processes runs. */
export async function untilEnded(pids: readonly number[]): Promise<void> {
  const areEnded = async () => !(await processes()).some(({ pid }) => pids.includes(pid));
  await untilWorkers(areEnded, 'all workers have exited');
}

export const portOf = ({ http }: ServiceProcess): number => Number(new URL(http).port);

/** Sends each request on a new connection. The workers receive the connections in turn. */
export async function ask(t: TestContext, running: ServiceProcess, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const wire = await Wire.open(t, portOf(running));
    assert.equal((await wire.write(head('GET /health', 'Connection: close')).next()).status, 200);
  }
}

export async function scrape(t: TestContext, running: ServiceProcess): Promise<string> {
  const wire = await Wire.open(t, portOf(running));
  const { status, body } = await wire.write(head('GET /metrics', 'Connection: close')).next();
  assert.equal(status, 200, JSON.stringify(running.lines.slice(-6)));
  return body;
}

/** The number of requests for the health that metrics have counted. */
export const healthOf = (text: string): number =>
  Number(/^users_service_requests_total\{.*route="\/health",status="200"\} (\d+)$/m.exec(text)?.[1] ?? 0);

/** Reads the metrics until they meet a condition, and resolves to them. */
export async function scrapeUntil(
  t: TestContext,
  running: ServiceProcess,
  what: string,
  isMet: (text: string) => boolean,
): Promise<string> {
  let text = '';
  await untilWorkers(async () => {
    text = await scrape(t, running);
    return isMet(text);
  }, what);
  return text;
}

/** The number of workers whose current numbers the metrics have, and of those with earlier ones. */
export const reportingOf = (text: string): number[] =>
  ['current', 'earlier'].map((numbers) =>
    Number(new RegExp(`^users_service_workers\\{numbers="${numbers}"\\} (\\d+)$`, 'm').exec(text)?.[1]),
  );

/** Reads the metrics until both workers have reported in time, which takes longer on a busy machine. */
export async function scrapeBoth(t: TestContext, running: ServiceProcess): Promise<string> {
  return await scrapeUntil(t, running, 'both workers report in time', (text) => {
    const [current = 0, earlier = 0] = reportingOf(text);
    return current === 2 && earlier === 0;
  });
}

/** A request is counted a moment after its response. */
export async function counted(t: TestContext, running: ServiceProcess, count: number): Promise<void> {
  await scrapeUntil(t, running, `${count} requests are counted`, (text) => healthOf(text) >= count);
}
