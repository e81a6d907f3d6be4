import { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import { it } from 'node:test';
import timers, { type TimerOptions } from 'node:timers';
import timersPromises from 'node:timers/promises';
import { Random } from '../../src/conformance/random.ts';

interface Timer {
  at: number;
  readonly everyMs: number | undefined;
  readonly run: () => void;
}

/** The functions that the scheduler replaces while code under test runs. */
const globals = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  setImmediate: globalThis.setImmediate,
};
const promises = { setTimeout: timersPromises.setTimeout, setImmediate: timersPromises.setImmediate };
/** The scheduler that runs at present. */
let current: Scheduler | undefined;
const inWork = new AsyncLocalStorage<Scheduler>();
/** The scheduler of the code that runs; `undefined` for what earlier tests have left, which continues in real time. */
const own = () => (inWork.getStore() === current ? current : undefined);
const realNow = performance.now.bind(performance);
const dateNow = Date.now;
const { random: mathRandom } = Math;
const { wait: atomicsWait } = Atomics;
const { timeout: signalTimeout } = AbortSignal;

/**
 * Runs events in an order that a seed decides, with simulated clocks. Events of one lane keep their order.
 * The random generator chooses the next lane, and whether the clocks advance first.
 */
export class Scheduler {
  readonly random: Random;
  readonly seed: number;
  /** The monotonic clock in ms. */
  now = 1_000;
  /** The difference between the wall clock and the monotonic clock. A test may step it. */
  dayMs = 1_700_000_000_000;
  readonly #lanes = new Map<unknown, (() => void)[]>();
  #timers: Timer[] = [];
  /** The lane of `setImmediate`. */
  readonly #immediates = {};

  constructor(seed: number) {
    this.seed = seed;
    this.random = new Random(seed);
  }

  /** Returns true at random in one of `cases` calls. */
  oneIn(cases: number): boolean {
    return this.random.below(cases) === 0;
  }

  /** Schedules an event after the waiting events of its lane. */
  soon(event: () => void, lane: unknown = event): void {
    const events = this.#lanes.get(lane);
    if (events === undefined) this.#lanes.set(lane, [event]);
    else events.push(event);
  }

  /** Resolves later, in the order of its lane. */
  turn(lane?: unknown): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.soon(resolve, lane ?? resolve);
    return promise;
  }

  /** Resolves when this much simulated time has passed. */
  sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#addTimer(resolve, ms);
    return promise;
  }

  /** Resolves in the next turn of the event loop. */
  immediate(): Promise<void> {
    return this.turn(this.#immediates);
  }

  /** Calls `run` in the next turn of the event loop. */
  setImmediate(run: () => void): void {
    this.soon(run, this.#immediates);
  }

  #addTimer(run: () => void, ms = 0, everyMs?: number): Timer {
    const timer = { at: this.now + Math.max(ms, 1), everyMs, run };
    this.#timers.push(timer);
    return timer;
  }

  /** Runs one event. Returns `false` if there is none. */
  step(): boolean {
    for (;;) {
      const due = this.#timers.filter(({ at }) => at <= this.now);
      const choices = this.#lanes.size + Number(due.length > 0);
      if (choices === 0 && this.#timers.length === 0) return false;
      if (choices === 0 || this.oneIn(8)) this.#advance();
      else {
        this.#runOne(this.random.below(choices), due);
        return true;
      }
    }
  }

  /** Advances the clocks to the next timer. */
  #advance(): void {
    if (this.#timers.length > 0) this.now = Math.max(this.now, Math.min(...this.#timers.map(({ at }) => at)));
  }

  #runOne(choice: number, due: readonly Timer[]): void {
    const [lane, events] = [...this.#lanes][choice] ?? [];
    if (events === undefined) this.#fire(due);
    else {
      const event = events.shift();
      if (events.length === 0) this.#lanes.delete(lane);
      event?.();
    }
  }

  #fire(due: readonly Timer[]): void {
    const timer = due.reduce((first, other) => (other.at < first.at ? other : first));
    if (timer.everyMs === undefined) this.#timers = this.#timers.filter((other) => other !== timer);
    else timer.at = this.now + timer.everyMs;
    timer.run();
  }

  /** Runs work until it ends, with simulated timers and clocks. Fails if the work can never end. */
  async run(work: (scheduler: Scheduler) => Promise<void>): Promise<void> {
    this.#install();
    try {
      let isOver = false;
      const running = inWork.run(this, work, this).finally(() => (isOver = true));
      running.catch(() => undefined);
      await inWork.run(this, () => this.#stepUntil(() => isOver));
      await running;
    } finally {
      restore();
    }
  }

  /** Runs one event in each turn of the event loop, so that first everything runs that follows from the last one. */
  #stepUntil(isOver: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let steps = 0;
    const turn = () => {
      if (isOver()) return resolve();
      steps += 1;
      try {
        if (!this.step() || steps > 100_000)
          throw new Error('the work waits for an event that never happens');
      } catch (error) {
        return reject(error);
      }
      globals.setImmediate(turn);
    };
    globals.setImmediate(turn);
    return promise;
  }

  #install(): void {
    const handle = (timer: Timer): object => ({
      timer,
      ref: () => handle(timer),
      unref: () => handle(timer),
      [Symbol.dispose]: () => clear({ timer }),
    });
    const start =
      (isRepeated: boolean) =>
      (run: (...args: unknown[]) => void, ms: number, ...args: unknown[]) =>
        handle(this.#addTimer(() => run(...args), ms, isRepeated ? ms : undefined));
    const clear = (given: { readonly timer?: Timer } | undefined) => {
      this.#timers = this.#timers.filter((timer) => timer !== given?.timer);
    };
    current = this;
    installModules();
    Object.assign(globalThis, {
      setTimeout: start(false),
      setInterval: start(true),
      clearTimeout: clear,
      clearInterval: clear,
      setImmediate: (run: () => void) => this.setImmediate(run),
    });
    performance.now = () => this.now;
    Date.now = () => this.dayMs + this.now;
    Math.random = () => this.random.below(1_000_000) / 1_000_000;
    Atomics.wait = (_array: unknown, _index: number, _value: unknown, ms = 0) => {
      this.now += ms;
      return 'timed-out';
    };
    AbortSignal.timeout = (ms: number) => {
      const aborter = new AbortController();
      this.#addTimer(() => aborter.abort(new DOMException('the operation timed out', 'TimeoutError')), ms);
      return aborter.signal;
    };
  }
}

let areModulesInstalled = false;

/**
 * Replaces the functions of `node:timers` and `node:timers/promises` once, because updating the imports of all modules
 * takes as long as a short schedule.
 */
function installModules(): void {
  if (areModulesInstalled) return;
  areModulesInstalled = true;
  Object.assign(timers, {
    setImmediate: (run: () => void) =>
      own() === undefined ? globals.setImmediate(run) : own()?.setImmediate(run),
  });
  Object.assign(timersPromises, {
    setTimeout: <T>(ms?: number, value?: T, options?: TimerOptions) =>
      own()?.sleep(ms ?? 1) ?? promises.setTimeout(ms, value, options),
    setImmediate: <T>(value?: T, options?: TimerOptions) =>
      own()?.immediate() ?? promises.setImmediate(value, options),
  });
  syncBuiltinESMExports();
}

function restore(): void {
  current = undefined;
  Object.assign(globalThis, globals);
  performance.now = realNow;
  Date.now = dateNow;
  Math.random = mathRandom;
  Atomics.wait = atomicsWait;
  AbortSignal.timeout = signalTimeout;
}

// All these tests together take about 4 s. SCHEDULE_MS gives each another time.
const budgetMs = Number(process.env['SCHEDULE_MS'] ?? 300);
// On a busy machine few fit into the time, and rare faults show only in the second hundred.
const fewestSchedules = 150;
const mostSchedules = 10_000;

/**
 * Defines a test that runs work under as many schedules as fit into its time, but at least 150. The first seed is made
 * from the date. A failure names its seed, and SCHEDULE_SEED=N runs only that one.
 */
export function testSchedules(name: string, work: (scheduler: Scheduler) => Promise<void>): void {
  it(name, async (t) => {
    const only = process.env['SCHEDULE_SEED'];
    const first = Number(only ?? `${new Date().toISOString().slice(0, 10).replaceAll('-', '')}0000`);
    const startedAt = realNow();
    const hasTime = () => realNow() - startedAt < budgetMs;
    const [fewest, most] = only === undefined ? [fewestSchedules, mostSchedules] : [1, 1];
    let count = 0;
    for (; count < fewest || (count < most && hasTime()); count += 1) {
      const seed = first + count;
      try {
        await new Scheduler(seed).run(work);
      } catch (cause) {
        throw new Error(`with SCHEDULE_SEED=${seed}: ${cause instanceof Error ? cause.message : cause}`, {
          cause,
        });
      }
    }
    t.diagnostic(`${count} schedules from seed ${first} in ${Math.round(realNow() - startedAt)} ms`);
  });
}
