import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { printed, type ServiceProcess, startProcess } from '../kit/process.ts';
import { head, Wire } from '../kit/wire.ts';
import { runTool } from '../support/tool.ts';
import { untilWorkers } from './pool.ts';

const requests = 40;

async function start(t: TestContext): Promise<ServiceProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'workers-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return await startProcess(t, ['--workers', '2', '--database', `sqlite:${folder}/users.db`]);
}

const portOf = ({ http }: ServiceProcess): number => Number(new URL(http).port);

/** Sends each request on a new connection. The workers receive the connections in turn. */
async function ask(t: TestContext, running: ServiceProcess, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const wire = await Wire.open(t, portOf(running));
    assert.equal((await wire.write(head('GET /health', 'Connection: close')).next()).status, 200);
  }
}

async function scrape(t: TestContext, running: ServiceProcess): Promise<string> {
  const wire = await Wire.open(t, portOf(running));
  const { status, body } = await wire.write(head('GET /metrics', 'Connection: close')).next();
  assert.equal(status, 200, JSON.stringify(running.lines.slice(-6)));
  return body;
}

const healthOf = (text: string): number =>
  Number(/^users_service_requests_total\{.*route="\/health",status="200"\} (\d+)$/m.exec(text)?.[1] ?? 0);
const workersOf = (text: string) =>
  ['current', 'earlier'].map((numbers) =>
    Number(new RegExp(`^users_service_workers\\{numbers="${numbers}"\\} (\\d+)$`, 'm').exec(text)?.[1]),
  );

/** A request is counted a moment after its response. */
async function counted(t: TestContext, running: ServiceProcess, count: number): Promise<void> {
  await scrapeUntil(t, running, `${count} requests are counted`, (text) => healthOf(text) >= count);
}

async function pidsOf({ child }: ServiceProcess): Promise<number[]> {
  const { stdout } = await runTool('ps', ['-A', '-o', 'pid=,ppid=,stat=']);
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, parent, stat]) => Number(parent) === child.pid && stat?.[0] !== 'Z')
    .map(([pid]) => Number(pid));
}

/** Reads the metrics until they meet a condition, and resolves to them. */
async function scrapeUntil(
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

/** Reads the metrics until both workers have reported in time, which takes longer on a busy machine. */
async function scrapeBoth(t: TestContext, running: ServiceProcess): Promise<string> {
  return await scrapeUntil(t, running, 'both workers report in time', (text) => {
    const [current = 0, earlier = 0] = workersOf(text);
    return current === 2 && earlier === 0;
  });
}

describe('metrics', () => {
  it('the metrics of several workers are their sum, no matter which worker responds', async (t) => {
    const running = await start(t);
    await ask(t, running, requests);
    await counted(t, running, requests);
    for (let i = 0; i < 4; i += 1) {
      const text = await scrapeBoth(t, running);
      assert.equal(healthOf(text), requests);
      assert.match(text, /^users_service_requests_in_flight\{face="http"\} 1$/m);
      assert.equal(text.match(/^# TYPE users_service_requests_total counter$/gm)?.length, 1);
    }
    const [first, second] = await Promise.all([scrape(t, running), scrape(t, running)]);
    assert.deepEqual([first, second].map(healthOf), [requests, requests]);
  });

  it('the metrics of several workers keep the counts of a killed worker', async (t) => {
    const running = await start(t);
    await ask(t, running, requests);
    await counted(t, running, requests);
    process.kill((await pidsOf(running))[0] ?? 0, 'SIGKILL');
    await printed(running, 'failure');
    assert.equal(healthOf(await scrapeBoth(t, running)), requests);
    await ask(t, running, requests);
    await counted(t, running, 2 * requests);
    assert.equal(healthOf(await scrape(t, running)), 2 * requests);
  });

  it('the metrics of several workers count a worker that was killed as a failure', async (t) => {
    const running = await start(t);
    assert.match(await scrape(t, running), /^users_service_failures_total 0$/m);
    process.kill((await pidsOf(running))[0] ?? 0, 'SIGKILL');
    await printed(running, 'failure');
    for (let i = 0; i < 2; i += 1)
      assert.match(await scrape(t, running), /^users_service_failures_total 1$/m);
    assert.equal(await running.end(), 0);
  });

  it('a connection of a worker that dies before it has accepted it is closed, and its metrics do not wait', async (t) => {
    const running = await start(t);
    const [stuck = 0] = await pidsOf(running);
    process.kill(stuck, 'SIGSTOP');
    t.after(() => running.child.kill('SIGKILL'));
    const wires = await Promise.all([1, 2].map(() => Wire.open(t, portOf(running))));
    for (const wire of wires) wire.write(head('GET /health'));
    const answers = wires.map((wire) => wire.next().then(({ status }) => status));
    assert.equal(await Promise.any(answers), 200);
    process.kill(stuck, 'SIGKILL');
    const ends = await Promise.allSettled(answers);
    const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []));
    assert.deepEqual(reasons, ['Error: ended after: ']);
    await scrapeBoth(t, running);
    assert.equal(await running.end(), 0);
  });

  it('the metrics of several workers keep the counts of replaced workers', async (t) => {
    const running = await start(t);
    await ask(t, running, requests);
    running.child.kill('SIGHUP');
    await printed(running, 'reloaded');
    // The last worker reports its counters when it stops.
    await counted(t, running, requests);
    assert.equal(healthOf(await scrape(t, running)), requests);
    assert.equal(await running.end(), 0);
  });

  it('the metrics of several workers do not wait for a stuck worker, and never decrease', async (t) => {
    const running = await start(t);
    await ask(t, running, requests);
    await counted(t, running, requests);
    const wires = await Promise.all([1, 2].map(() => Wire.open(t, portOf(running))));
    for (const wire of wires) wire.write(head('GET /users'));
    for (const wire of wires) assert.equal((await wire.next()).status, 200);
    const [stuck = 0] = await pidsOf(running);
    process.kill(stuck, 'SIGSTOP');
    t.after(() => process.kill(stuck, 'SIGKILL'));
    for (const wire of wires) wire.write(head('GET /metrics'));
    const responding = await Promise.any(wires.map((wire) => wire.next().then((first) => ({ wire, first }))));
    let { status, body } = responding.first;
    await untilWorkers(async () => {
      assert.equal(status, 200);
      assert.equal(healthOf(body), requests);
      const [current, earlier] = workersOf(body);
      if (current === 1 && earlier === 1) return true;
      // On a busy machine, the other worker can be late too.
      ({ status, body } = await responding.wire.write(head('GET /metrics')).next());
      return false;
    }, 'only the stuck worker is late');
    process.kill(stuck, 'SIGCONT');
    assert.equal(healthOf(await scrapeBoth(t, running)), requests);
  });
});
