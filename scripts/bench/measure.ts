import { setTimeout as sleep } from 'node:timers/promises';
import type {
  Bar,
  BenchContext,
  CaseResult,
  Contestant,
  Measured,
  Series,
  ServerContestant,
} from './case.ts';
import { sendLoad } from './load/load.ts';
import type { Load, LoadResult } from './load/types.ts';
import { tell } from './progress.ts';
import { type Subject, start } from './subject.ts';

export interface ThroughputCase {
  readonly name: string;
  readonly title: string;
  readonly load: Load;
  readonly contestants: readonly Contestant[];
  readonly bars: readonly Bar[];
  readonly notes?: readonly string[];
}

const warmUpSeconds = 3;
const checkEveryMs = 500;

/** A contestant that is ready to be measured. */
interface Runner {
  readonly name: string;
  readonly measure: (seconds: number) => Promise<Measured>;
  readonly check: () => Promise<void>;
  readonly stop: () => Promise<void>;
  readonly measured: Measured[];
}

/**
 * Measures contestants beside one another: all are up at the same time, one at a time is loaded, and
 * each round begins with another, so that what disturbs the machine disturbs them alike.
 */
export async function measureThroughput(
  what: ThroughputCase,
  { folder, rounds, seconds }: BenchContext,
): Promise<CaseResult> {
  const runners: Runner[] = [];
  try {
    for (const contestant of what.contestants) {
      const runner = await prepare(contestant, what.load, folder);
      runners.push(runner);
      await runner.check();
    }
    for (const { name, measure } of runners) {
      tell(`${what.name}: warming up ${name}`);
      await measure(warmUpSeconds);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const i of runners.keys()) {
        const runner = runners[(i + round) % runners.length];
        if (runner === undefined) continue;
        tell(`${what.name}: round ${round + 1} of ${rounds}, ${runner.name}`);
        runner.measured.push(await runner.measure(seconds));
      }
    }
    for (const { check } of runners) await check();
  } finally {
    await Promise.all(runners.map(({ stop }) => stop()));
  }
  const { name, title, bars, notes = [] } = what;
  return { name, title, unit: 'requests/s', better: 'more', series: runners.map(toSeries), bars, notes };
}

function toSeries({ name, measured }: Runner): Series {
  const cpuMicros = measured.flatMap((one) => one.cpuMicros ?? []);
  const p99Ms = measured.flatMap((one) => one.p99Ms ?? []);
  return {
    name,
    values: measured.map(({ perSecond }) => perSecond),
    ...(cpuMicros.length > 0 && { cpuMicros }),
    ...(p99Ms.length > 0 && { p99Ms }),
  };
}

async function prepare(contestant: Contestant, load: Load, folder: string): Promise<Runner> {
  if ('measure' in contestant) {
    const nothing = async () => undefined;
    return { ...contestant, check: nothing, stop: nothing, measured: [] };
  }
  const subject = await start(contestant.program, folder, contestant.cores);
  return {
    name: contestant.name,
    measure: (seconds) => measureServer(contestant, subject, load, seconds),
    check: () => contestant.check(subject),
    stop: () => subject.stop(),
    measured: [],
  };
}

async function measureServer(
  contestant: ServerContestant,
  subject: Subject,
  load: Load,
  seconds: number,
): Promise<Measured> {
  const cpuBefore = subject.cpuSeconds();
  const { requests, seconds: took, p99Ms } = await loadServer(contestant, subject, load, seconds);
  const cpuSeconds = subject.cpuSeconds() - cpuBefore;
  return {
    perSecond: requests / took,
    cpuMicros: (cpuSeconds / requests) * 1e6,
    ...(p99Ms !== undefined && { p99Ms }),
  };
}

/** One load, with an answer checked now and then meanwhile: wrong ones must not count. */
async function loadServer(
  contestant: ServerContestant,
  subject: Subject,
  load: Load,
  seconds: number,
): Promise<LoadResult> {
  const own = contestant.load ?? load;
  const url = own.streams === undefined ? subject.http : `http://${subject.grpc}`;
  const loading = sendLoad(url, own, seconds);
  const done = loading.then(() => true);
  while (!(await Promise.race([done, sleep(checkEveryMs, false)]))) await contestant.check(subject);
  const result = await loading;
  if (result.errors > 0) {
    throw new Error(`${contestant.name}: ${result.errors} of ${result.requests} answers were errors`);
  }
  return result;
}
