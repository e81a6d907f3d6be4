import assert from 'node:assert/strict';
import cluster, { type Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { Server } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { messageOf } from '../../src/domain/errors.ts';
import { coalesced } from '../../src/domain/promises.ts';
import type { Observe, ServiceEvent } from '../../src/telemetry/events.ts';
import type { MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import { forkWorker, workerLink } from '../../src/workers/worker-link.ts';
import { WorkerPool } from '../../src/workers/worker-pool.ts';
import { runMain } from '../kit/process.ts';
import { runCommand } from '../support/command.ts';
import { recordPauses } from '../support/pauses.ts';
import { temporaryFolder } from '../support/temporary.ts';

const series = 'users_service_failures_total';
const start = 'users_service_start_time_seconds';
const patience = { timeout: 20_000 };
const ready = { ready: { http: 'http://127.0.0.1:1' } };
const snapshot: MetricsSnapshot = { [series]: 1 };
const cpu = 'process_cpu_seconds_total';
const ofPrimary: MetricsSnapshot = { [cpu]: 5 };

/** A worker without a process, and the messages that it has received. */
interface FakeWorker extends EventEmitter {
  readonly process: EventEmitter;
  readonly received: unknown[];
  send(message: unknown, done?: (error: Error) => unknown): unknown;
}

function fakeWorker(): FakeWorker {
  const received: unknown[] = [];
  return Object.assign(new EventEmitter(), {
    received,
    process: Object.assign(new EventEmitter(), { pid: 1 }),
    isConnected: () => true,
    // Answers the request for a turn as a primary does.
    send(this: EventEmitter, message: unknown) {
      const isTurn = isDeepStrictEqual(message, { question: 'turn' });
      if (isTurn) setImmediate(() => this.emit('message', { turn: true }));
      return received.push(message);
    },
  });
}

/** Lets each message to or from a worker fail. Like Node.js, emits the error only if the sender does not handle it. */
function failSends(worker: FakeWorker): void {
  worker.send = (message: unknown, done = (error: Error) => worker.emit('error', error)) => {
    process.nextTick(done, new Error('write EPIPE'));
    return worker.received.push(message);
  };
}

/**
 * Makes pools start workers that have no process, and returns them. Each is ready in the next turn, unless `prepare`,
 * which receives it first with its number from 1, returns false.
 */
function fakeForks(t: TestContext, prepare?: (worker: FakeWorker, number: number) => unknown): FakeWorker[] {
  const forks: FakeWorker[] = [];
  t.mock.method(cluster, 'fork', () => {
    const worker = fakeWorker();
    const number = forks.push(worker);
    if (prepare?.(worker, number) !== false) setImmediate(() => worker.emit('message', ready));
    return worker as unknown as Worker;
  });
  return forks;
}

/** Makes a worker end in the turn after the message to stop. */
function endOnStop(worker: FakeWorker, end: () => unknown = () => worker.emit('exit', 0, null)): void {
  worker.send = (message) => {
    if (message === 'stop') setImmediate(end);
    return worker.received.push(message);
  };
}

/** Starts a pool whose workers have no process. */
async function startPool(t: TestContext, count: number): Promise<readonly FakeWorker[]> {
  const workers = fakeForks(t);
  await createPool(count).start();
  return workers;
}

function createPool(count: number, stopTimeoutMs = 1_000, observe: Observe = () => undefined): WorkerPool {
  return new WorkerPool({ count, observe, metrics: () => ofPrimary, stopTimeoutMs });
}

/** Returns the warnings of the process since then, such as `MaxListenersExceededWarning`. */
function collectWarnings(t: TestContext): readonly Error[] {
  const warnings: Error[] = [];
  const add = (warning: Error) => warnings.push(warning);
  process.on('warning', add);
  t.after(() => process.off('warning', add));
  return warnings;
}

describe('scrapes of the metrics', () => {
  it('simultaneous scrapes of the metrics share one report of each worker', async (t) => {
    const warnings = collectWarnings(t);
    const workers = await startPool(t, 12);
    for (let i = 0; i < 3; i += 1)
      for (const worker of workers) worker.emit('message', { question: 'gather' });
    await t.waitFor(() => {
      for (const { received } of workers) assert.deepEqual(received, ['report']);
    }, patience);
    for (const worker of workers) worker.emit('message', { metrics: snapshot });
    await t.waitFor(() => {
      for (const { received } of workers) assert.equal(received.length, 4);
    });
    for (const { received } of workers) {
      for (const reply of received.slice(1)) {
        const { gathered } = reply as { gathered: MetricsSnapshot };
        assert.equal(gathered[series], 12);
        assert.equal(gathered[cpu], 5, 'of the primary, once');
        assert.equal(gathered[start], performance.timeOrigin / 1000);
      }
    }
    // A later scrape collects the metrics again.
    workers[0]?.emit('message', { question: 'gather' });
    await t.waitFor(() => {
      for (const { received } of workers) assert.equal(received.filter((one) => one === 'report').length, 2);
    }, patience);
    for (const worker of workers) worker.emit('message', { metrics: snapshot });
    assert.deepEqual(warnings, []);
  });

  for (const [what, fails] of [
    ['ends meanwhile', false],
    ['has just ended', true],
  ] as const) {
    it(`a scrape of the metrics does not wait for a worker that ${what}, and does not count it`, async (t) => {
      const [first, second] = await startPool(t, 2);
      assert.ok(second);
      if (fails) failSends(second);
      first?.emit('message', { question: 'gather' });
      await t.waitFor(() => assert.deepEqual(second.received, ['report']), patience);
      await nextTurn();
      second.emit('disconnect');
      first?.emit('message', { metrics: snapshot });
      await t.waitFor(() => assert.equal(first?.received.length, 2), patience);
      const [, reply] = first?.received ?? [];
      const { gathered } = reply as { gathered: MetricsSnapshot };
      assert.equal(gathered['users_service_workers{numbers="current"}'], 1);
      assert.equal(gathered['users_service_workers{numbers="earlier"}'], 0);
    });
  }

  it('simultaneous scrapes of the metrics share one request of a worker to its primary', async (t) => {
    const warnings = collectWarnings(t);
    const worker = fakeWorker();
    Object.assign(cluster, { worker });
    t.after(() => Reflect.deleteProperty(cluster, 'worker'));
    const link = workerLink();
    assert.ok(link);
    link.serve(
      () => undefined,
      () => ({}),
    );
    for (let round = 1; round <= 2; round += 1) {
      const texts = Promise.all(Array.from({ length: 30 }, link.renderMetrics));
      await t.waitFor(
        () => assert.deepEqual(worker.received, Array(round).fill({ question: 'gather' })),
        patience,
      );
      worker.emit('message', { gathered: snapshot });
      for (const text of await texts) assert.match(text, /^users_service_failures_total 1$/m);
    }
    assert.deepEqual(warnings, []);
  });
});

it('a worker continues to run when its message to the primary is lost', async (t) => {
  const worker = fakeWorker();
  failSends(worker);
  Object.assign(cluster, { worker });
  t.after(() => Reflect.deleteProperty(cluster, 'worker'));
  workerLink()?.ready(ready.ready);
  await nextTurn();
  assert.deepEqual(worker.received, [ready]);
});

describe('the death of a worker during a replacement', () => {
  for (const [when, fails] of [
    ['all new ones start', false],
    ['a new one cannot start', true],
  ] as const) {
    it(`a worker that dies while all are replaced is replaced too (${when})`, async (t) => {
      const running: FakeWorker[] = [];
      const end = (worker: FakeWorker, signal: string | null) => {
        running.splice(running.indexOf(worker), 1);
        worker.emit('exit', 0, signal);
      };
      fakeForks(t, (worker, number) => {
        endOnStop(worker, () => end(worker, null));
        running.push(worker);
        if (number !== 3) return true;
        setImmediate(() => {
          const dying = running[1];
          if (dying !== undefined) end(dying, 'SIGKILL');
          if (fails) end(worker, null);
        });
        return !fails;
      });
      const pool = createPool(2);
      await pool.start();
      await pool.reload();
      await t.waitFor(() => assert.equal(running.length, 2));
      await pool.stop();
      assert.equal(running.length, 0);
    });
  }

  for (const dies of ['during the start of the new one', 'later'] as const) {
    it(`a worker that dies while another one completes its requests is replaced at once (${dies})`, async (t) => {
      const forks = fakeForks(t, (worker, number) => {
        // The first one takes as long to stop as the test.
        if (number > 1) endOnStop(worker);
        if (number === 3 && dies !== 'later') setImmediate(() => forks[1]?.emit('exit', null, 'SIGKILL'));
      });
      const pool = createPool(2, 60_000);
      await pool.start();
      const reloaded = pool.reload();
      await t.waitFor(() => assert.deepEqual(forks[0]?.received, ['stop']), patience);
      if (dies === 'later') forks[1]?.emit('exit', null, 'SIGKILL');
      await t.waitFor(() => assert.equal(forks.length, 4), patience);
      forks[0]?.emit('exit', 0, null);
      await reloaded;
      await pool.stop();
      assert.equal(forks.length, 4);
    });
  }

  it('no worker is added for a new one that exits while the old one beside it completes its requests', async (t) => {
    const running = new Set<FakeWorker>();
    const exit = (worker: FakeWorker | undefined, signal: string | null) => {
      if (worker !== undefined && running.delete(worker)) worker.emit('exit', 0, signal);
    };
    const forks = fakeForks(t, (worker, number) => {
      running.add(worker);
      // The test ends the first one.
      if (number > 1) endOnStop(worker, () => exit(worker, null));
    });
    const pool = createPool(2, 60_000);
    await pool.start();
    const reloaded = pool.reload();
    await t.waitFor(() => assert.deepEqual(forks[0]?.received, ['stop']), patience);
    exit(forks[2], 'SIGKILL');
    await t.waitFor(() => assert.equal(forks.length, 4), patience);
    exit(forks[0], null);
    await reloaded;
    await pool.reload();
    assert.equal(running.size, 2);
    await pool.stop();
  });

  it('no worker starts for the next old one when the service stops meanwhile', async (t) => {
    const forks = fakeForks(t);
    const pool = createPool(2, 60_000);
    await pool.start();
    const reloaded = pool.reload();
    await t.waitFor(() => assert.deepEqual(forks[0]?.received, ['stop']), patience);
    const stopped = pool.stop();
    forks[0]?.emit('exit', 0, null);
    await nextTurn();
    for (const worker of forks) worker.emit('exit', 0, null);
    await Promise.all([reloaded, stopped]);
    assert.equal(forks.length, 3);
  });

  it('an old worker keeps serving when the new one beside it exits soon after it was ready', async (t) => {
    const forks = fakeForks(t, (worker, number) => {
      endOnStop(worker);
      if (number > 2) worker.once('message', () => setImmediate(() => worker.emit('exit', 7, null)));
    });
    const events: ServiceEvent[] = [];
    const pool = createPool(2, 10_000, (event) => events.push(event));
    t.after(() => pool.stop());
    await pool.start();
    await pool.reload();
    const keeps = 'a new worker exited, so the remaining old workers keep serving';
    const received = forks.slice(0, 2).map(({ received }) => received);
    assert.deepEqual(received, [['stop'], []]);
    const shown = events.map((event) => (event.type === 'failure' ? messageOf(event.cause) : event.type));
    assert.deepEqual(shown, ['listening', 'a worker exited: code 7', keeps, 'warning']);
  });
});

/** Makes the next worker one without a process that serves a port. Passes it connections, and logs what is closed. */
function forkServing(t: TestContext, closed: number[]) {
  const child = Object.assign(new EventEmitter(), { send: (..._given: unknown[]) => true });
  const worker = Object.assign(new EventEmitter(), { process: child });
  t.mock.method(cluster, 'fork', () => worker as unknown as Worker);
  forkWorker();
  t.after(() => worker.emit('exit'));
  child.emit('internalMessage', { act: 'queryServer' });
  const pass = (seq: number) => child.send({ act: 'newconn', seq }, { close: () => closed.push(seq) });
  return { worker, child, pass };
}

it('the primary accepts waiting connections for a worker if the service stops, not if the worker is replaced', async (t) => {
  const forks = fakeForks(t);
  const pool = createPool(2, 60_000);
  await pool.start();
  const reloaded = pool.reload();
  await t.waitFor(() => assert.deepEqual(forks[0]?.received, ['stop']), patience);
  forks[0]?.emit('message', { question: 'turn' });
  await t.waitFor(() => assert.deepEqual(forks[0]?.received, ['stop', { turn: false }]), patience);
  const stopped = pool.stop();
  forks[1]?.emit('message', { question: 'turn' });
  await t.waitFor(() => assert.deepEqual(forks[1]?.received, ['stop', { turn: true }]), patience);
  for (const worker of forks) worker.emit('exit', 0, null);
  await Promise.all([reloaded, stopped]);
});

describe('a worker that exits', () => {
  it('leaves only the connections that it has neither accepted nor rejected, which are closed', (t) => {
    const closed: number[] = [];
    const { worker, child, pass } = forkServing(t, closed);
    for (const seq of [1, 2, 3]) pass(seq);
    child.emit('internalMessage', { ack: 1 });
    child.emit('internalMessage', { cmd: 'NODE_HANDLE_NACK' });
    worker.emit('exit');
    assert.deepEqual(closed, [3]);
  });
});

describe('a connection that a worker returns because it has closed its port', () => {
  for (const [what, end, expected] of [
    ['stays open while the other worker serves', 'none', []],
    ['is closed if the other worker has closed its port too', 'close', [1]],
    ['is closed if the other worker has exited', 'exit', [1]],
  ] as const) {
    it(what, (t) => {
      const closed: number[] = [];
      const other = forkServing(t, closed);
      const { child, pass } = forkServing(t, closed);
      if (end === 'close') other.child.emit('internalMessage', { act: 'close' });
      if (end === 'exit') other.worker.emit('exit');
      pass(1);
      child.emit('internalMessage', { act: 'close' });
      child.emit('internalMessage', { ack: 1, accepted: false });
      assert.deepEqual(closed, expected);
    });
  }
});

describe('a reload during another one', () => {
  it('replaces all workers once more, one by one, no matter how many reloads wait', async (t) => {
    let [running, most] = [0, 0];
    const later: Promise<void>[] = [];
    const forks = fakeForks(t, (worker, number) => {
      worker.send = (sent) => {
        if (sent === 'stop') running -= 1;
        return sent === 'stop' && setImmediate(() => worker.emit('exit', 0, null));
      };
      running += 1;
      most = Math.max(most, running);
      if (number === 3) queueMicrotask(() => later.push(reload(), reload()));
    });
    const events: string[] = [];
    const pool = createPool(2, 10_000, ({ type }) => events.push(type));
    // As the command does it.
    const reload = coalesced(() => pool.reload());
    await pool.start();
    await Promise.all([reload(), reload()]);
    await Promise.all(later);
    assert.deepEqual([forks.length, running, most], [6, 2, 3]);
    assert.deepEqual(events, ['listening', 'reloaded', 'reloaded']);
    await pool.stop();
  });
});

describe('a reload whose new worker does not start', () => {
  it('says what it means, and the next one replaces all workers, also if it arrived meanwhile', async (t) => {
    let later: Promise<void> | undefined;
    const forks = fakeForks(t, (worker, number) => {
      endOnStop(worker);
      if (number !== 3) return true;
      queueMicrotask(() => {
        later = reload();
      });
      setImmediate(() => worker.emit('exit', 2, null));
      return false;
    });
    const events: ServiceEvent[] = [];
    const pool = createPool(2, 10_000, (event) => events.push(event));
    const reload = coalesced(() => pool.reload());
    t.after(() => pool.stop());
    await pool.start();
    await reload();
    await later;
    const cause = new Error('a worker exited before it was ready: code 2');
    const message = 'SIGHUP: workers that were not replaced keep their certificate and keys; send it again';
    assert.deepEqual(events.slice(1), [
      { type: 'failure', where: 'process', cause },
      { type: 'warning', message },
      { type: 'reloaded' },
    ]);
    assert.equal(forks.length, 5);
  });
});

describe('a worker that starts during a replacement', () => {
  for (const [what, stops, reported] of [
    ['exits', false, 'a worker exited before it was ready: code 143'],
    ['exits while the service stops', true, undefined],
  ] as const) {
    it(`a new worker that ${what} is ${reported ? 'reported' : 'not reported'}`, async (t) => {
      const forks = fakeForks(t, (worker, number) => {
        endOnStop(worker);
        return number === 1;
      });
      const events: ServiceEvent[] = [];
      const pool = createPool(1, 10_000, (event) => events.push(event));
      await pool.start();
      const replaced = pool.reload();
      await t.waitFor(() => assert.equal(forks.length, 2), patience);
      const stopped = stops && pool.stop();
      forks[1]?.emit('exit', 143, null);
      await Promise.all([replaced, stopped]);
      const causes = events.flatMap((event) => (event.type === 'failure' ? [event.cause] : []));
      assert.deepEqual(causes.map(messageOf), reported === undefined ? [] : [reported]);
      // The outcome of the reload is of no use to a service that stops.
      const types = events.slice(1).map(({ type }) => type);
      assert.deepEqual(types, stops ? ['draining', 'closed'] : ['failure', 'warning']);
    });
  }
});

describe('a worker that stops', () => {
  for (const [how, code, signal, reported] of [
    ['in order', 0, null, []],
    ['by a signal after its deadline', null, 'SIGKILL', ['a worker did not stop in order: SIGKILL']],
    ['with an error', 1, null, ['a worker did not stop in order: code 1']],
  ] as const) {
    it(`a worker that ends ${how} is ${reported.length > 0 ? 'a failure' : 'no failure'}`, async (t) => {
      fakeForks(t, (worker) => {
        Object.assign(worker.process, { kill: () => setImmediate(() => worker.emit('exit', code, signal)) });
        if (signal === null) endOnStop(worker, () => worker.emit('exit', code, null));
      });
      const events: ServiceEvent[] = [];
      const pool = createPool(1, 10, (event) => events.push(event));
      await pool.start();
      await pool.stop();
      const causes = events.flatMap((event) => (event.type === 'failure' ? [event.cause] : []));
      assert.deepEqual(causes, reported);
    });
  }
});

describe('the time of a worker to stop', () => {
  for (const [delayMs, timeoutMs, killedAfterMs] of [
    [8_000, 100, 23_100],
    // The longest timer.
    [8_000, 2_147_483_647, 2_147_483_647],
  ])
    it(`a worker is killed ${killedAfterMs} ms after a stop with ${delayMs} and ${timeoutMs} ms to drain`, async (t) => {
      const { mock } = t.mock.method(globalThis, 'setTimeout');
      fakeForks(t, (worker, number) => {
        endOnStop(worker);
        if (number === 1) return true;
        // The pool then stops the first one.
        setImmediate(() => worker.emit('exit', 3, null));
        return false;
      });
      const drain = `--drain-delay-ms ${delayMs} --drain-timeout-ms ${timeoutMs}`;
      const options = `${drain} --port 0 --grpc-port off`.split(' ');
      const database = 'sqlite:never-created.db';
      const { code, stderr } = await runCommand(['--workers', '2', '--database', database, ...options]);
      assert.deepEqual([code, stderr], [1, 'users-service: a worker exited before it was ready: code 3\n']);
      assert.ok(mock.calls.some(({ arguments: [, ms] }) => ms === killedAfterMs));
    });
});

describe('a stop while a worker waits to be restarted', () => {
  it('a pool that stops during the pause before a restart leaves no timer', async (t) => {
    const countTimers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const forks = fakeForks(t);
    const pool = createPool(1);
    await pool.start();
    const before = countTimers();
    forks[0]?.emit('exit', null, 'SIGKILL');
    assert.equal(countTimers(), before + 1);
    await pool.stop();
    assert.equal(countTimers(), before);
  });
});

describe('a worker that keeps exiting', () => {
  it('a worker is restarted after pauses of up to 10 s, which begin again after 10 s of service', async (t) => {
    let now = 1_000;
    t.mock.method(performance, 'now', () => now);
    const pauses = recordPauses(t);
    const forks = fakeForks(t, () => false);
    const started = createPool(1).start();
    forks[0]?.emit('message', ready);
    await started;
    for (const serviceMs of [...Array(8).fill(0), 10_000, 10_001]) {
      now += serviceMs;
      forks.at(-1)?.emit('exit', null, 'SIGKILL');
      await nextTurn();
      forks.at(-1)?.emit('message', ready);
    }
    assert.deepEqual(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 100]);
  });

  it('workers that exit at the same time lengthen the pause before their next restart once', async (t) => {
    const pauses = recordPauses(t);
    const forks = fakeForks(t, () => false);
    const started = createPool(3).start();
    const begin = async () => {
      await nextTurn();
      for (const worker of forks.slice(-3)) worker.emit('message', ready);
      await nextTurn();
    };
    forks[0]?.emit('message', ready);
    await begin();
    await started;
    for (let round = 0; round < 3; round += 1) {
      for (const worker of forks.slice(-3)) worker.emit('exit', null, 'SIGKILL');
      await begin();
    }
    assert.deepEqual(pauses, [100, 100, 100, 200, 200, 200, 400, 400, 400]);
    assert.equal(forks.length, 12);
  });

  it('a worker that cannot be restarted is reported each time, and tried again after a longer pause', async (t) => {
    const pauses = recordPauses(t);
    const forks = fakeForks(t, () => false);
    const causes: string[] = [];
    const pool = createPool(1, 10_000, (event) => {
      if (event.type === 'failure') causes.push(messageOf(event.cause));
    });
    const started = pool.start();
    forks[0]?.emit('message', ready);
    await started;
    for (const code of [1, 2, 3]) {
      forks.at(-1)?.emit('exit', code, null);
      await nextTurn();
    }
    forks.at(-1)?.emit('message', ready);
    await nextTurn();
    assert.deepEqual(pauses, [100, 200, 400]);
    assert.equal(forks.length, 4);
    const early = 'a worker exited before it was ready';
    assert.deepEqual(causes, ['a worker exited: code 1', `${early}: code 2`, `${early}: code 3`]);
  });
});

describe('a stop message during the start of a worker', () => {
  it('a worker that was starting receives the stop message again when it is ready', async (t) => {
    const kills: unknown[] = [];
    const forks = fakeForks(t, (worker, number) => {
      const exit = () => setImmediate(() => worker.emit('exit', 0, null));
      const kill = (signal: unknown) => {
        kills.push(signal);
        exit();
      };
      Object.assign(worker.process, { kill });
      let isReady = false;
      // Like a process that does not read its messages yet.
      worker.send = (message) => {
        if (message === 'stop' && isReady) exit();
        return worker.received.push(message);
      };
      worker.once('message', () => {
        isReady = true;
      });
      return number === 1;
    });
    const pool = createPool(1, 10_000);
    await pool.start();
    const replaced = pool.reload();
    await t.waitFor(() => assert.equal(forks.length, 2), patience);
    const stopped = pool.stop();
    const [, starting] = forks;
    assert.deepEqual(starting?.received, ['stop']);
    starting?.emit('message', ready);
    await Promise.all([replaced, stopped]);
    assert.deepEqual([starting?.received, forks.length, kills], [['stop', 'stop'], 2, []]);
  });

  it('a worker that receives the stop message before its port is open ends, and closes the port', async (t) => {
    const fake = fakeWorker();
    const worker = Object.assign(fake, { disconnect: () => setImmediate(() => fake.emit('disconnect')) });
    Object.assign(cluster, { worker });
    t.after(() => Reflect.deleteProperty(cluster, 'worker'));
    const { listen } = Server.prototype;
    const servers: Server[] = [];
    t.mock.method(Server.prototype, 'listen', function (this: Server, ...given: unknown[]) {
      servers.push(this);
      worker.emit('message', 'stop');
      return Reflect.apply(listen, this, given);
    });
    const folder = temporaryFolder();
    const args = ['--workers', '2', '--database', `sqlite:${folder}/users.db`];
    const { code } = await runCommand([...args, '--port', '0', '--grpc-port', 'off']);
    assert.equal(code, 0);
    const listening = servers.map(({ listening }) => listening);
    assert.deepEqual(listening, [false]);
  });
});

describe('a primary whose workers cannot start', () => {
  /** Runs the service with code that each of its processes runs first. */
  const run = async (code: string) => {
    const cwd = temporaryFolder();
    const text = `import { isWorker } from 'node:cluster'; ${code}`;
    return await runMain(['--workers', '2', '--port', '0', '--grpc-port', '0'], {
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(text)}` },
      cwd,
    });
  };

  it('a primary fails with the error of a fork that throws', async (t) => {
    const cause = new Error('spawn ENOMEM');
    t.mock.method(cluster, 'fork', () => {
      throw cause;
    });
    await assert.rejects(createPool(2).start(), cause);
  });

  it('a primary prints why no process could be created', async () => {
    const { code, stderr } = await run(`process.execPath = '/missing/node'`);
    assert.equal(
      stderr,
      'users-service: a worker could not be started: /missing/node: no such file or directory\n',
    );
    assert.equal(code, 1);
  });

  it('a primary prints which signal ended a worker before it was ready', async () => {
    const { code, stderr } = await run(`if (isWorker) process.kill(process.pid, 'SIGKILL')`);
    assert.equal(stderr, 'users-service: a worker exited before it was ready: SIGKILL\n');
    assert.equal(code, 1);
  });

  it('a primary prints the exit code of a worker, which has printed the reason', async () => {
    const { code, stderr } = await run(`if (isWorker) { console.error('the reason'); process.exit(2) }`);
    assert.equal(stderr, 'the reason\nusers-service: a worker exited before it was ready: code 2\n');
    assert.equal(code, 1);
  });

  it('a primary that a signal ends during the start ends its workers, which print nothing', async () => {
    const { code, stdout, stderr } = await run(
      `if (isWorker) {
        const primary = process.ppid;
        // A worker that has begun to listen drains after this signal.
        process.on('SIGTERM', () => undefined);
        process.kill(primary, 'SIGTERM');
        const nothing = new Int32Array(new SharedArrayBuffer(4));
        while (process.ppid === primary) Atomics.wait(nothing, 0, 0, 5);
        console.error('a worker has outlived its primary');
      }`,
    );
    assert.deepEqual([code, stdout, stderr], [143, '', '']);
  });

  it('a worker whose primary is killed during the start exits without an error', async () => {
    const { stdout, stderr } = await run(
      `import { Server } from 'node:net';
      const primary = process.ppid;
      const { listen } = Server.prototype;
      if (isWorker) Server.prototype.listen = function (...given) {
        if (process.ppid === primary) process.kill(primary, 'SIGKILL');
        const nothing = new Int32Array(new SharedArrayBuffer(4));
        while (process.ppid === primary) Atomics.wait(nothing, 0, 0, 5);
        return Reflect.apply(listen, this, given);
      };`,
    );
    assert.doesNotMatch(stdout, /failure/);
    assert.equal(stderr, '');
  });

  it('a worker whose primary is killed before the last messages exits without an error', async () => {
    const { stdout, stderr } = await run(
      `import cluster from 'node:cluster';
      const primary = process.ppid;
      if (isWorker) {
        const { worker } = cluster;
        const { disconnect } = worker;
        worker.disconnect = () => {
          if (process.ppid === primary) process.kill(primary, 'SIGKILL');
          const nothing = new Int32Array(new SharedArrayBuffer(4));
          while (process.ppid === primary) Atomics.wait(nothing, 0, 0, 5);
          disconnect.call(worker);
        };
      } else {
        const { write } = process.stdout;
        process.stdout.write = function (...given) {
          if (String(given[0]).includes('listening')) setImmediate(() => process.kill(process.pid, 'SIGTERM'));
          return Reflect.apply(write, this, given);
        };
      }`,
    );
    assert.match(stdout, /"draining"/);
    assert.equal(stderr, '');
  });
});
