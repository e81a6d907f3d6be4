import assert from 'node:assert/strict';
import cluster, { type Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { coalesced } from '../../src/domain/promises.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { WorkerPool } from '../../src/workers/worker-pool.ts';
import { type Scheduler, testSchedules } from '../support/scheduler.ts';

const count = 3;
const ready = { ready: { http: 'http://127.0.0.1:1' } };

/** A worker without a process, which starts, dies, hangs and stops as the scheduler decides. */
class FakeWorker extends EventEmitter {
  readonly process: EventEmitter;
  readonly #host: FakeHost;
  /** The number of workers before it. */
  readonly index: number;
  isReady = false;
  isAlive = true;
  isStopping = false;

  constructor(host: FakeHost) {
    super();
    this.#host = host;
    this.index = host.forks.length;
    const kill = () => host.scheduler.soon(() => this.exit(null, 'SIGKILL'));
    this.process = Object.assign(new EventEmitter(), { pid: 1, send: () => true, kill });
    host.scheduler.soon(() => this.#start());
  }

  #start(): void {
    const { scheduler } = this.#host;
    if (!this.isAlive) return;
    if (this.#host.isUnlucky(5)) this.exit(1, null);
    else if (scheduler.oneIn(3)) scheduler.soon(() => this.#start());
    else {
      this.isReady = true;
      this.emit('message', ready);
      if (this.#host.isUnlucky(5)) scheduler.soon(() => this.exit(null, 'SIGSEGV'));
    }
  }

  isConnected(): boolean {
    return this.isAlive;
  }

  send(message: unknown): void {
    if (message !== 'stop' || !this.isReady || this.isStopping) return;
    this.isStopping = true;
    // One that hangs is killed.
    if (!this.#host.isUnlucky(5))
      this.#host.scheduler.soon(() => this.exit(this.#host.isUnlucky(5) ? 1 : 0, null));
  }

  exit(code: number | null, signal: string | null): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    const events = [() => this.emit('exit', code, signal), () => this.emit('disconnect')];
    if (this.#host.scheduler.oneIn(2)) events.reverse();
    for (const event of events) this.#host.scheduler.soon(event, this);
  }
}

class FakeHost {
  readonly scheduler: Scheduler;
  readonly forks: FakeWorker[] = [];
  /** Whether workers no longer die or hang by themselves. */
  isCalm = false;

  constructor(scheduler: Scheduler) {
    this.scheduler = scheduler;
  }

  isUnlucky(cases: number): boolean {
    return !this.isCalm && this.scheduler.oneIn(cases);
  }

  get serving(): FakeWorker[] {
    return this.forks.filter((one) => one.isAlive && one.isReady && !one.isStopping);
  }

  fork(): Worker {
    if (this.isUnlucky(20)) throw new Error('spawn ENOMEM');
    const worker = new FakeWorker(this);
    this.forks.push(worker);
    return worker as unknown as Worker;
  }
}

testSchedules(
  'a pool replaces workers that die at any moment, a reload replaces all, and none outlives a stop',
  async (scheduler) => {
    const host = new FakeHost(scheduler);
    const { fork } = cluster;
    Object.assign(cluster, { fork: () => host.fork() });
    try {
      const events: ServiceEvent[] = [];
      const observe = (event: ServiceEvent) => events.push(event);
      const pool = new WorkerPool({ count, observe, metrics: () => ({}), stopTimeoutMs: 1_000 });
      const started = await pool.start().then(
        () => true,
        () => false,
      );
      if (!started) {
        assert.equal(
          host.forks.filter(({ isAlive }) => isAlive).length,
          0,
          'a worker outlived a failed start',
        );
        return;
      }
      const reload = coalesced(async () => {
        const before = host.forks.length;
        const seen = events.length;
        await pool.reload();
        if (events.slice(seen).some(({ type }) => type === 'reloaded'))
          assert.deepEqual(
            host.serving.filter(({ index }) => index < before),
            [],
            'an old worker remains',
          );
      });
      const work: Promise<void>[] = [];
      for (let i = 0; i < 10; i += 1) {
        const choice = scheduler.random.below(4);
        if (choice === 0) work.push(reload());
        if (choice === 1) host.serving[scheduler.random.below(count)]?.exit(null, 'SIGKILL');
        if (choice === 2) await scheduler.sleep(scheduler.random.below(3_000));
        assert.ok(host.serving.length <= count + 1, `${host.serving.length} workers serve`);
        await scheduler.turn();
      }
      if (scheduler.oneIn(2)) {
        host.isCalm = true;
        await Promise.all(work);
        for (let tries = 0; host.serving.length !== count && tries < 50; tries += 1)
          await scheduler.sleep(20_000);
        assert.equal(host.serving.length, count, 'the pool is not complete');
        for (let turn = 0; turn < 50; turn += 1) await scheduler.turn();
        await reload();
        assert.equal(host.serving.length, count, 'the pool is not complete after a reload');
        assert.equal(events.at(-1)?.type, 'reloaded');
      }
      await pool.stop();
      assert.equal(host.forks.filter(({ isAlive }) => isAlive).length, 0, 'a worker outlived the stop');
      const forks = host.forks.length;
      await scheduler.sleep(60_000);
      await Promise.all(work);
      assert.equal(host.forks.length, forks, 'a worker was started after the stop');
    } finally {
      Object.assign(cluster, { fork });
    }
  },
);
