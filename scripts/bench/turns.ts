import { median, shuffle } from '../harness/statistics.ts';
import type { Cores } from './cores.ts';
import { type Load, sendLoad } from './load.ts';
import { endProgress, report } from './progress.ts';
import type { Bar, CaseResult, Series } from './result.ts';
import { type Program, type Subject, start } from './subject.ts';

/** A server that is compared with the others of its contest. */
export interface Contestant {
  readonly name: string;
  readonly program: Program;
  /** Its cores, if not the core of the server. */
  readonly cores?: Cores;
}

/** The load for all contestants. */
export interface Work {
  readonly name: string;
  readonly title: string;
  /** The targets, which may differ between contestants. */
  readonly load: Load | ((contestant: string) => Load);
  /** Throws unless the server returns the expected responses. Runs before and after the rounds. */
  readonly check: (subject: Subject, contestant: string) => Promise<void>;
  readonly bars?: readonly Bar[];
}

export const rate = 'requests/s';
export const cpu = 'CPU us/request';
/** The share of the time in which the server computed or waited for its core. Below 1 the load was the limit. */
export const busy = 'busy';

// CPU time of the server. On a busy machine a turn takes longer but does the same work.
const turnSeconds = 0.15;
// If a server waits for its disk, a turn ends after a few times this duration.
const maxTurnSeconds = 0.6;
// After this warm-up its code is compiled.
const warmUpRequests = 30_000;
const maxWarmUpSeconds = 15;
const firstTurnRequests = 256;
const peakTurns = 15;

export interface ContestOptions {
  readonly folder: string;
  readonly rounds: number;
  /** After this time no new round of the same work starts. */
  readonly maxSeconds?: number;
}

/** A running contestant. */
export interface Runner {
  readonly name: string;
  readonly subject: Subject;
}

/** Starts all contestants, measures all kinds of work with them, and stops them. */
export async function contest(
  contestants: readonly Contestant[],
  works: readonly Work[],
  options: ContestOptions,
): Promise<CaseResult[]> {
  return await withRunners(contestants, options.folder, async (runners) => {
    const results: CaseResult[] = [];
    for (const work of works) results.push(await measure(work, runners, options));
    return results;
  });
}

export async function withRunners<T>(
  contestants: readonly Contestant[],
  folder: string,
  use: (runners: readonly Runner[]) => Promise<T>,
): Promise<T> {
  const runners: Runner[] = [];
  try {
    for (const { name, program, cores } of contestants) {
      report(`starting ${name}`);
      runners.push({ name, subject: await start(program, folder, cores) });
    }
    return await use(runners);
  } finally {
    endProgress();
    await Promise.all(runners.map(({ subject }) => subject.stop()));
  }
}

/**
 * Runs turns of a fraction of a second in random order, so that all contestants of a round have the same
 * disturbances, and the order of contestants changes.
 */
async function measure(
  work: Work,
  runners: readonly Runner[],
  { rounds, maxSeconds = Number.POSITIVE_INFINITY }: ContestOptions,
): Promise<CaseResult> {
  const places = runners.map((runner) => {
    const { name, subject } = runner;
    const load = typeof work.load === 'function' ? work.load(name) : work.load;
    return {
      name,
      subject,
      load,
      requests: Math.max(firstTurnRequests, load.connections),
      turns: [] as Turn[],
    };
  });
  for (const { name, subject } of places) await work.check(subject, name);
  for (const place of places) {
    report(`${work.name}: warming up ${place.name}`);
    await warmUp(place, Math.min(maxWarmUpSeconds, maxSeconds / 4));
  }
  const endsAt = performance.now() + maxSeconds * 1000;
  for (let round = 0; round < rounds && performance.now() < endsAt; round += 1) {
    report(`${work.name}: round ${round + 1} of ${rounds}`);
    for (const place of shuffle(places)) place.turns.push(await takeTurn(place));
  }
  for (const { name, subject } of places) await work.check(subject, name);
  const series = places.map(({ name, turns }): Series => {
    const of = (metric: keyof Turn) => turns.map((turn) => turn[metric]);
    return { name, values: { [rate]: of(rate), [cpu]: of(cpu), [busy]: of(busy) } };
  });
  return { name: work.name, title: work.title, series, compare: [rate, cpu], bars: work.bars ?? [] };
}

interface Turn {
  readonly [rate]: number;
  readonly [cpu]: number;
  readonly [busy]: number;
}

/** A contestant under a load. */
interface Place {
  readonly subject: Subject;
  readonly load: Load;
  /** The number of requests for a turn, estimated from the turn before. */
  requests: number;
}

async function warmUp(place: Place, maxSeconds = maxWarmUpSeconds): Promise<void> {
  const endsAt = performance.now() + maxSeconds * 1000;
  for (let sent = 0; sent < warmUpRequests && performance.now() < endsAt; ) {
    sent += place.requests;
    await takeTurn(place);
  }
}

async function takeTurn(place: Place): Promise<Turn> {
  const { subject, load, requests } = place;
  const before = subject.cpuTime();
  const seconds = await sendLoad(subject, load, requests);
  const after = subject.cpuTime();
  subject.emptyLog();
  const computed = after.computed - before.computed;
  const fitting = requests * Math.min(turnSeconds / computed, maxTurnSeconds / seconds);
  // A disturbed turn must not make the next one much longer or shorter.
  const next = Math.round(Math.min(Math.max(fitting, requests / 2), requests * 2));
  place.requests = Math.max(load.connections * 2, next);
  return {
    [rate]: requests / seconds,
    [cpu]: (computed / requests) * 1e6,
    [busy]: (computed + after.waited - before.waited) / seconds,
  };
}

/** The requests per second of a contestant: the median of some turns. */
export async function peakOf(subject: Subject, load: Load): Promise<number> {
  const place = { subject, load, requests: firstTurnRequests };
  await warmUp(place);
  const rates: number[] = [];
  for (let i = 0; i < peakTurns; i += 1) rates.push((await takeTurn(place))[rate]);
  return median(rates);
}
