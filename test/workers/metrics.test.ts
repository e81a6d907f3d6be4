import assert from 'node:assert/strict';
import { it } from 'node:test';
import { printed, withoutGrpc } from '../kit/process.ts';
import { head, Wire } from '../kit/wire.ts';
import {
  ask,
  counted,
  healthOf,
  portOf,
  reportingOf,
  scrape,
  scrapeBoth,
  start,
  untilWorkers,
  workersOf,
} from './pool.ts';

const requests = 12;

// These tests run in this order, each with two running workers.
it('the metrics of several workers', async (all) => {
  const running = await start(all, withoutGrpc);

  await all.test('are their sum, no matter which worker responds', async (t) => {
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

  await all.test('do not wait for a stuck worker, and never decrease', async (t) => {
    await ask(t, running, requests);
    await counted(t, running, 2 * requests);
    const wires = await Promise.all([1, 2].map(() => Wire.open(t, portOf(running))));
    for (const wire of wires) wire.write(head('GET /users'));
    for (const wire of wires) assert.equal((await wire.next()).status, 200);
    const [stuck = Number.NaN] = await workersOf(running);
    process.kill(stuck, 'SIGSTOP');
    t.after(() => process.kill(stuck, 'SIGCONT'));
    for (const wire of wires) wire.write(head('GET /metrics'));
    const responding = await Promise.any(wires.map((wire) => wire.next().then((first) => ({ wire, first }))));
    let { status, body } = responding.first;
    await untilWorkers(async () => {
      assert.equal(status, 200);
      assert.equal(healthOf(body), 2 * requests);
      const [current, earlier] = reportingOf(body);
      if (current === 1 && earlier === 1) return true;
      // On a busy machine, the other worker can be late too.
      ({ status, body } = await responding.wire.write(head('GET /metrics')).next());
      return false;
    }, 'only the stuck worker is late');
    process.kill(stuck, 'SIGCONT');
    assert.equal(healthOf(await scrapeBoth(t, running)), 2 * requests);
  });

  await all.test('keep the counts of a killed worker, and count it as a failure', async (t) => {
    await ask(t, running, requests);
    await counted(t, running, 3 * requests);
    assert.match(await scrape(t, running), /^users_service_failures_total 0$/m);
    process.kill((await workersOf(running))[0] ?? Number.NaN, 'SIGKILL');
    await printed(running, 'failure');
    assert.equal(healthOf(await scrapeBoth(t, running)), 3 * requests);
    await ask(t, running, requests);
    await counted(t, running, 4 * requests);
    for (let i = 0; i < 2; i += 1) {
      const text = await scrape(t, running);
      assert.equal(healthOf(text), 4 * requests);
      assert.match(text, /^users_service_failures_total 1$/m);
    }
  });

  await all.test('do not wait for a worker that dies with a connection, which is closed', async (t) => {
    const [stuck = Number.NaN] = await workersOf(running);
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
});
