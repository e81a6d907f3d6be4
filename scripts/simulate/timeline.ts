import { isDeepStrictEqual } from 'node:util';
import { agrees, type Evidence, isSuccess, type Sighting, tokenOf, type Violation } from './evidence.ts';
import type { Entry, Fields } from './history.ts';

/** When something happened: not before `lo` and not after `hi`. The requests are those that show it. */
export interface Moment {
  lo: number;
  hi: number;
  loBy?: Entry | undefined;
  hiBy?: Entry | undefined;
}

function anyMoment(): Moment {
  return { lo: Number.NEGATIVE_INFINITY, hi: Number.POSITIVE_INFINITY };
}

export function notBefore(moment: Moment, lo: number, loBy: Entry | undefined): void {
  if (lo > moment.lo && lo < Number.POSITIVE_INFINITY) Object.assign(moment, { lo, loBy });
}

export function notAfter(moment: Moment, hi: number, hiBy: Entry | undefined): void {
  if (hi < moment.hi) Object.assign(moment, { hi, hiBy });
}

/** When the first of some requests began; infinity without any. */
export function earliest(entries: readonly Entry[]): number {
  return Math.min(...entries.map(({ start }) => start));
}

/** The versions of one record, and when each of them began. */
export class Timeline {
  readonly name: string;
  readonly evidence: Evidence;
  readonly violations: Violation[] = [];
  /** The highest version that was seen; 0 if none was. */
  readonly last: number;
  /** By version; absent for those that no response showed. */
  readonly fields: (Fields | undefined)[] = [];
  readonly #begins: Moment[];
  /** When the record was deleted, if it can be or is. */
  readonly gone = anyMoment();
  canBeGone = false;
  isGone = false;
  /** Writes that may have happened, and that made none of the versions. */
  maybes: readonly Entry[] = [];

  constructor(evidence: Evidence) {
    this.name = `${evidence.kind} ${evidence.id}`;
    this.evidence = evidence;
    this.last = Math.max(0, ...evidence.entries.filter(isSuccess).map(({ version = 0 }) => version));
    this.#begins = Array.from({ length: this.last + 2 }, anyMoment);
  }

  fail(rule: string, message: string, ...culprits: (Entry | undefined)[]): void {
    const found = culprits.filter((culprit) => culprit !== undefined);
    const record = this.name;
    this.violations.push({
      rule,
      message: `${record}: ${message}`,
      record,
      culprits: found,
      isOfTimeline: true,
    });
  }

  get versions(): number[] {
    return Array.from({ length: this.last }, (_, i) => i + 1);
  }

  begin(version: number): Moment {
    return this.#begins[version] ?? anyMoment();
  }

  end(version: number): { readonly lo: number; readonly hi: number } {
    if (version < this.last) return this.begin(version + 1);
    const gone = this.canBeGone ? this.gone.lo : Number.POSITIVE_INFINITY;
    const hi = this.isGone ? this.gone.hi : Number.POSITIVE_INFINITY;
    return { lo: Math.min(gone, earliest(this.maybes)), hi };
  }

  /** The versions that may have been current at some moment of a request. */
  possible({ start, end }: Entry): number[] {
    return this.versions.filter((v) => this.begin(v).lo <= end && this.end(v).hi >= start);
  }

  /** Whether it existed during the whole request, and all its values are known. */
  isSure({ start, end }: Entry): boolean {
    return this.begin(1).hi <= start && this.end(this.last).lo > end && earliest(this.maybes) > end;
  }

  /** Whether it may have existed at some moment of the request. */
  mayBe({ start, end }: Entry): boolean {
    return this.begin(1).lo <= end && this.end(this.last).hi >= start;
  }

  /** Whether it may have had a value that no response showed. */
  isOpen({ end }: Entry): boolean {
    return earliest(this.maybes) <= end;
  }

  /** Whether an unanswered write may have made what was seen. */
  isMaybe(sighting: Sighting): boolean {
    return this.maybes.some((maybe) => maybe.start <= sighting.entry.end && couldMake(maybe, sighting));
  }

  /** The versions with the fields that were seen; none if an unanswered write may have made them. */
  matching(sighting: Sighting): number[] {
    if (this.isMaybe(sighting)) return [];
    const { entry, fields: seen } = sighting;
    return this.versions.filter((version) => {
      const fields = this.fields[version];
      // A call shows only the name.
      return entry.kind === 'list' ? isDeepStrictEqual(fields, seen) : fields?.['name'] === seen['name'];
    });
  }
}

export function couldMake(write: Entry, { entry, fields }: Sighting): boolean {
  return entry.kind === 'list' ? agrees(fields, write) : tokenOf(write.sent) === fields['name'];
}
