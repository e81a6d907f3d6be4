/** The measurements of one contestant: one value per round for each metric. */
export interface Series {
  readonly name: string;
  readonly values: Readonly<Record<string, readonly number[]>>;
}

/** A goal: a metric of the first series divided by that of another, or by itself. */
export interface Bar {
  /** If absent, the bar applies to the value itself. */
  readonly theirs?: string;
  /** If absent, the first series. */
  readonly ours?: string;
  /** If absent, the first metric. */
  readonly metric?: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

export interface CaseResult {
  readonly name: string;
  readonly title: string;
  /** The first series is compared with the others. */
  readonly series: readonly Series[];
  /** The metrics whose ratios are printed. */
  readonly compare: readonly string[];
  readonly bars?: readonly Bar[];
  readonly notes?: readonly string[];
}

/** The context of every case. */
export interface BenchContext {
  /** A folder for files of this run, which is removed at the end. */
  readonly folder: string;
  /** A folder for data files that are kept between runs. */
  readonly dataFolder: string;
  readonly rounds: number;
  /** The most users the growth cases go up to. */
  readonly maxUsers: number;
  /** The duration of the soak case, in seconds. */
  readonly soakSeconds: number;
}

export interface Case {
  readonly name: string;
  readonly title: string;
  /** Whether the case takes long. It then runs only if it is named or with all cases. */
  readonly long?: boolean;
  run(context: BenchContext): Promise<readonly CaseResult[]>;
}

/** The result of a case that this machine cannot run. */
export function skipped(name: string, title: string, why: string): CaseResult[] {
  return [{ name, title, series: [], compare: [], notes: [`not run: ${why}`] }];
}
