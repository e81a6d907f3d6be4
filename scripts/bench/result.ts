/** What was measured of one contestant: for each metric one value a round. */
export interface Series {
  readonly name: string;
  readonly values: Readonly<Record<string, readonly number[]>>;
}

/** A goal: a metric of the first series divided by that of another, or by itself. */
export interface Bar {
  /** Absent: the value itself must be reached. */
  readonly theirs?: string;
  /** Absent: the first series. */
  readonly ours?: string;
  /** Absent: the first metric. */
  readonly metric?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface CaseResult {
  readonly name: string;
  readonly title: string;
  /** The first is the one that the others are compared with. */
  readonly series: readonly Series[];
  /** The metrics whose ratios are printed. */
  readonly compare: readonly string[];
  readonly bars?: readonly Bar[];
  readonly notes?: readonly string[];
}

/** What every case gets. */
export interface BenchContext {
  /** For files that are made during the run; removed at the end. */
  readonly folder: string;
  /** Where data files are kept from run to run. */
  readonly dataFolder: string;
  readonly rounds: number;
  /** The most users the growth cases go up to. */
  readonly maxUsers: number;
  /** How long the soak case lasts, in seconds. */
  readonly soakSeconds: number;
}

export interface Case {
  readonly name: string;
  readonly title: string;
  /** Takes long, and so runs only when it is named or all cases are. */
  readonly long?: boolean;
  run(context: BenchContext): Promise<readonly CaseResult[]>;
}
