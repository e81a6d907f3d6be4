import type { Entry } from './history.ts';

/** When something happened, as far as the responses show: after `lo` and before `hi`, because of these requests. */
export interface Moment {
  lo: number;
  hi: number;
  loBy: Entry | undefined;
  hiBy: Entry | undefined;
}

/** Any time at all. */
export function moment(): Moment {
  return { lo: Number.NEGATIVE_INFINITY, hi: Number.POSITIVE_INFINITY, loBy: undefined, hiBy: undefined };
}

/** Brings the limits closer together, if the new ones are closer. */
export function narrow(
  window: Moment,
  { lo, hi }: { lo?: number; hi?: number },
  by: Entry | undefined,
): void {
  if (lo !== undefined && lo > window.lo && lo !== Number.POSITIVE_INFINITY) {
    window.lo = lo;
    window.loBy = by;
  }
  if (hi !== undefined && hi < window.hi) {
    window.hi = hi;
    window.hiBy = by;
  }
}
