import { statSync } from 'node:fs';
import { platform } from 'node:os';

/** What commands do with a store whose data outlives its process. */
export interface StoreTools {
  /** Examines a store, or standbys, without changing it. */
  readonly examine: (url: string, options?: ExamineOptions) => Promise<Finding[]>;
  /** Examines whether this number of processes may write to one store; absent if any number may. */
  readonly examineSharing?: (processes: number) => Promise<Finding>;
  /** Prepares empty stores beside the one at a URL. */
  readonly scratch: (url: string) => Promise<Scratch>;
  /** Copies a store into a new file; absent if the database has its own tools. */
  readonly backUp?: (url: string, target: string, onProgress: BackupProgress) => Promise<void>;
}

/** Creates empty stores beside the one at a URL, for tests. */
export interface Scratch {
  /** Resolves to the URL of a new store. */
  next(): Promise<string>;
  /** Ages the idempotency keys of a store; absent if the store accepts a clock. */
  readonly passTime?: (url: string, ms: number) => Promise<void>;
  remove(): Promise<void>;
}

export type BackupProgress = (donePages: number, allPages: number) => void;

/** The result of a check of a store, a file or a port: one line for an operator. */
export interface Finding {
  /** `warn`: it works, but may fail later. `fail`: the service would not start, or its data is at risk. */
  readonly level: 'ok' | 'warn' | 'fail';
  readonly what: string;
  /** How to solve the problem; empty when there is none. */
  readonly remedy: string;
  /** Set if it is a server that could not be examined. */
  readonly isUnreachable?: true;
}

export interface ExamineOptions {
  /** Whether it is a standby, which need not take writes. Default: false. */
  readonly isStandby?: boolean;
  /** The number of processes that will use the store. Default: 1. */
  readonly processes?: number;
  /** Whether they read from standbys. A standby may become the primary, and then has the connections of both. */
  readonly hasStandbys?: boolean;
  /** Whether they keep a feed of changes. Default: `true`. */
  readonly hasFeed?: boolean;
}

export const ok = (what: string): Finding => ({ level: 'ok', what, remedy: '' });
export const warn = (what: string, remedy: string): Finding => ({ level: 'warn', what, remedy });
export const fail = (what: string, remedy: string): Finding => ({ level: 'fail', what, remedy });

/** Examines whether every user of the machine may read or write a file. */
export function examineMode(path: string): Finding {
  // Windows has no such modes.
  return platform() !== 'win32' && (statSync(path).mode & 0o006) !== 0
    ? warn(`${path} is open to every user of this machine`, `run chmod 600 ${path}`)
    : ok(`${path} is not open to every user`);
}
