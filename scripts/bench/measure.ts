import { setTimeout as sleep } from 'node:timers/promises';
import type { Bar, BenchContext, CaseResult, Contestant, Series } from './case.ts';
import { type Load, type LoadResult, sendLoad } from './load/load.ts';
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

interface Runner {
  readonly contestant: Contestant;
  readonly subject: Subject;
  readonly values: number[];
  readonly cpuMicros: number[];
  readonly p99Ms: number[];
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
      const subject = await start(contestant.program, folder, contestant.cores);
      runners.push({ contestant, subject, values: [], cpuMicros: [], p99Ms: [] });
      await contestant.check(subject);
    }
    for (const runner of runners) {
      tell(`${what.name}: warming up ${runner.contestant.name}`);
      await loadOnce(runner, what.load, warmUpSeconds);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const i of runners.keys()) {
        const runner = runners[(i + round) % runners.length];
        if (runner === undefined) continue;
        tell(`${what.name}: round ${round + 1} of ${rounds}, ${runner.contestant.name}`);
        await measureOnce(runner, what.load, seconds);
      }
    }
    for (const { contestant, subject } of runners) await contestant.check(subject);
  } finally {
    await Promise.all(runners.map(({ subject }) => subject.stop()));
  }
  const series = runners.map(({ contestant: { name }, values, cpuMicros, p99Ms }): Series => {
    return { name, values, cpuMicros, ...(p99Ms.length > 0 && { p99Ms }) };
  });
  const { name, title, bars, notes = [] } = what;
  return { name, title, unit: 'requests/s', better: 'more', series, bars, notes };
}

async function measureOnce(runner: Runner, load: Load, seconds: number): Promise<void> {
  const { subject } = runner;
  const cpuBefore = subject.cpuSeconds();
  const result = await loadOnce(runner, load, seconds);
  const cpuSeconds = subject.cpuSeconds() - cpuBefore;
  runner.values.push(result.requests / result.seconds);
  runner.cpuMicros.push((cpuSeconds / result.requests) * 1e6);
  if (result.p99Ms !== undefined) runner.p99Ms.push(result.p99Ms);
}

/** One load, with an answer checked now and then meanwhile: wrong ones must not count. */
async function loadOnce(runner: Runner, load: Load, seconds: number): Promise<LoadResult> {
  const { contestant, subject } = runner;
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
