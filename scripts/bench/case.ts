import type { Line } from '../harness/chart.ts';
import type { Cores } from './cores.ts';
import type { Load } from './load/types.ts';
import type { Program, Subject } from './subject.ts';

/** What every case gets. */
export interface BenchContext {
  /** For everything that is made while it runs; removed at the end. */
  readonly folder: string;
  /** Where data files are kept from run to run. */
  readonly dataFolder: string;
  readonly rounds: number;
  readonly seconds: number;
  /** The most users the growth cases go up to. */
  readonly maxUsers: number;
  /** How long the memory case lasts, in seconds. */
  readonly memorySeconds: number;
}

/** Something measured beside the others of its case: a server under load, or what measures itself. */
export type Contestant = ServerContestant | ToolContestant;

export interface ToolContestant {
  readonly name: string;
  readonly measure: (seconds: number) => Promise<Measured>;
}

/** What came of one load. */
export interface Measured {
  readonly perSecond: number;
  /** CPU time of the server for one request, in microseconds. */
  readonly cpuMicros?: number;
  readonly p99Ms?: number;
}

export interface ServerContestant {
  readonly name: string;
  readonly program: Program;
  /** Where it runs, if not on the server's core. */
  readonly cores?: Cores;
  /** The load it gets, if not its case's. */
  readonly load?: Load;
  /** Fails unless the subject gives the right answers; run before and after it is measured. */
  readonly check: (subject: Subject) => Promise<void>;
}

/** What must be reached: ours divided by theirs or, with nobody to compare with, ours. */
export interface Bar {
  readonly ours: string;
  readonly theirs?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** What was measured of one contestant, a value a round. */
export interface Series {
  readonly name: string;
  readonly values: readonly number[];
  /** CPU time of the server for one request, in microseconds. */
  readonly cpuMicros?: readonly number[];
  readonly p99Ms?: readonly number[];
}

/** A line of a chart that several cases may share. */
export interface Curve extends Line {
  readonly chart: string;
}

export interface CaseResult {
  readonly name: string;
  readonly title: string;
  readonly unit: string;
  readonly better: 'more' | 'less';
  readonly series: readonly Series[];
  readonly bars: readonly Bar[];
  readonly curves?: readonly Curve[];
  /** What the numbers alone do not say. */
  readonly notes?: readonly string[];
}

export interface Case {
  readonly name: string;
  readonly title: string;
  /** Takes long, and so runs only when it is named or everything is asked for. */
  readonly long?: boolean;
  run(context: BenchContext): Promise<CaseResult>;
}
