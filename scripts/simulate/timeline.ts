import { isDeepStrictEqual } from 'node:util';
import {
  agrees,
  applied,
  couldMake,
  type Evidence,
  fieldsOf,
  isNotFound,
  isSuccess,
  isUnknown,
  tokenOf,
  type Violation,
} from './evidence.ts';
import type { Entry, Fields, RecordKind } from './history.ts';
import { type Moment, moment, narrow } from './moment.ts';

interface Version {
  fields: Fields | undefined;
  readonly begin: Moment;
}

/**
 * What the responses prove of one record's life. Its versions are a total order, so each begins at one
 * moment; every response narrows down when. A moment that no time is left for is a broken promise.
 */
export class Timeline {
  readonly kind: RecordKind;
  readonly id: number;
  readonly violations: Violation[] = [];
  readonly #evidence: Evidence;
  readonly #versions = new Map<number, Version>();
  readonly #gone = moment();
  #canBeGone = false;
  #isGone = false;
  /** The highest version that was seen. */
  #last = 0;
  /** Writes that may have happened, and that no version is known of. */
  #maybes: Entry[] = [];

  constructor(evidence: Evidence) {
    this.kind = evidence.kind;
    this.id = evidence.id;
    this.#evidence = evidence;
    this.#findValues();
    this.#findWriters();
    this.#observe();
    this.#findEnd();
    this.#propagate();
    this.#checkRefusals();
  }

  /** The last version that was seen, and whether the record is gone for sure, or may be. */
  get last(): { readonly version: number; readonly isGone: boolean; readonly canBeGone: boolean } {
    return { version: this.#last, isGone: this.#isGone, canBeGone: this.#canBeGone };
  }

  get versions(): readonly number[] {
    return [...this.#versions.keys()];
  }

  fields(version: number): Fields | undefined {
    return this.#versions.get(version)?.fields;
  }

  /** When a version may have begun, and when it may have ended. */
  begin(version: number): Moment {
    const known = this.#versions.get(version);
    if (known !== undefined) return known.begin;
    const made = moment();
    this.#versions.set(version, { fields: undefined, begin: made });
    return made;
  }

  end(version: number): { readonly lo: number; readonly hi: number } {
    if (version < this.#last) return this.begin(version + 1);
    const maybe = Math.min(...this.#maybes.map(({ start }) => start));
    const lo = Math.min(maybe, this.#canBeGone ? this.#gone.lo : Number.POSITIVE_INFINITY);
    return { lo, hi: this.#isGone ? this.#gone.hi : Number.POSITIVE_INFINITY };
  }

  /** The versions that may have been current at some moment of a request. */
  possible({ start, end }: Entry): readonly number[] {
    return this.versions.filter((v) => v <= this.#last && this.begin(v).lo <= end && this.end(v).hi >= start);
  }

  /** Whether it was there all the time, and with no value that is not known. */
  isSure({ start, end }: Entry): boolean {
    return (
      this.begin(1).hi <= start && this.end(this.#last).lo > end && this.#maybes.every((m) => m.start > end)
    );
  }

  /** Whether it may have been there, and may have had a value that no response showed. */
  mayBe({ start, end }: Entry): { readonly there: boolean; readonly unknown: boolean } {
    const there = this.begin(1).lo <= end && this.end(this.#last).hi >= start;
    return { there, unknown: this.#maybes.some((maybe) => maybe.start <= end) };
  }

  /** The versions with these fields; none where an unanswered write may have made them. */
  matching({ fields, isWhole, entry }: Evidence['sightings'][number]): readonly number[] {
    if (this.#maybes.some((maybe) => maybe.start <= entry.end && couldMake(maybe, fields, isWhole)))
      return [];
    return this.versions.filter((v) => {
      const known = this.fields(v);
      if (known === undefined) return false;
      return isWhole ? isDeepStrictEqual(known, fields) : known['name'] === fields['name'];
    });
  }

  #fail(rule: string, message: string, ...culprits: (Entry | undefined)[]): void {
    const record = `${this.kind} ${this.id}`;
    const found = culprits.filter((culprit) => culprit !== undefined);
    this.violations.push({
      rule,
      message: `${record}: ${message}`,
      record,
      culprits: found,
      isOfTimeline: true,
    });
  }

  #findValues(): void {
    const by = new Map<number, Entry>();
    for (const entry of this.#evidence.entries) {
      const { version, row } = entry;
      if (!isSuccess(entry) || version === undefined) continue;
      this.#last = Math.max(this.#last, version);
      if (row === undefined) continue;
      const fields = fieldsOf(row);
      const known = this.fields(version);
      if (row.id !== this.id || (row.userId ?? entry.user) !== entry.user) {
        this.#fail('wrong record', `answered with ${JSON.stringify(row)}`, entry);
      }
      if (known !== undefined && !isDeepStrictEqual(known, fields)) {
        this.#fail('one version, two values', `version ${version} has two values`, by.get(version), entry);
      }
      by.set(version, entry);
      this.begin(version);
      this.#versions.set(version, { fields, begin: this.begin(version) });
      const isWrite = entry.kind === 'create' || entry.kind === 'replace' || entry.kind === 'patch';
      if (isWrite && !isDeepStrictEqual(applied(fields, entry), fields)) {
        this.#fail('lost write', 'a write was answered with something else than it wrote', entry);
      }
    }
  }

  #findWriters(): void {
    const { entries } = this.#evidence;
    const creations = entries.filter(({ kind }) => kind === 'create');
    const first = this.begin(1);
    const sure = creations.filter((entry) => entry.status === 201 && entry.replayed !== true);
    if (sure.length > 1) this.#fail('id given twice', 'two creations were answered with it', ...sure);
    narrow(
      first,
      { lo: Math.min(...(sure.length > 0 ? sure : creations).map(({ start }) => start)) },
      creations[0],
    );
    for (const entry of creations) if (entry.status === 201) narrow(first, { hi: entry.end }, entry);
    if (creations.length === 0) this.#fail('out of nowhere', 'no request created it', entries[0]);

    const writes = entries.filter(
      ({ kind, sent }) => (kind === 'replace' || kind === 'patch') && sent && Object.keys(sent).length > 0,
    );
    const unknown = new Set(writes.filter(isUnknown));
    let gaps = 0;
    for (let v = 2; v <= this.#last; v += 1) {
      const fields = this.fields(v);
      if (fields === undefined) {
        gaps += 1;
        continue;
      }
      const before = this.fields(v - 1);
      const answered = writes.filter((write) => isSuccess(write) && write.version === v);
      const certain = answered.filter(({ sent }) => tokenOf(sent) !== undefined);
      if (certain.length > 1) this.#fail('lost update', `two writes made version ${v}`, ...certain);
      const [writer] = certain;
      const makes = (write: Entry) =>
        before === undefined
          ? agrees(fields, write)
          : isDeepStrictEqual(applied(before, write), fields) && !isDeepStrictEqual(before, fields);
      const makers = writer ? [writer] : [...answered.filter(makes), ...[...unknown].filter(makes)];
      if (
        writer !== undefined &&
        before !== undefined &&
        !isDeepStrictEqual(applied(before, writer), fields)
      ) {
        this.#fail('lost update', `version ${v} has undone a part of version ${v - 1}`, writer);
      }
      if (makers.length === 0) {
        const shown = entries.find((entry) => entry.version === v);
        this.#fail('out of nowhere', `no request wrote version ${v}`, shown);
      }
      const [maker] = makers;
      narrow(this.begin(v), { lo: Math.min(...makers.map(({ start }) => start)) }, maker);
      // What an unanswered write made is no longer in doubt.
      if (maker !== undefined && makers.length === 1) unknown.delete(maker);
      for (const write of answered) {
        const isMaker = makers.includes(write);
        const taken = [...(isMaker ? [v - 1] : []), ...(isMaker && makers.length === 1 ? [] : [v])];
        this.#checkGuard(write, taken);
      }
    }
    this.#maybes = [...unknown];
    if (gaps > this.#maybes.length)
      this.#fail('out of nowhere', `${gaps} versions that no request wrote`, entries.at(-1));
  }

  /** A write must have met one of the versions it named. */
  #checkGuard(write: Entry, met: readonly number[]): void {
    const versions = write.guard?.versions ?? '*';
    if (versions === '*' || met.some((v) => versions.includes(v))) return;
    this.#fail(
      'ignored If-Match',
      `a write was made on version ${met.join(' or ')} despite its If-Match`,
      write,
    );
  }

  #observe(): void {
    const { entries, sightings } = this.#evidence;
    for (const entry of entries) {
      const { version, kind, guard, status } = entry;
      if (!isSuccess(entry) || version === undefined || entry.replayed === true) continue;
      this.#see(entry, version, version);
      if (kind !== 'get' || guard === undefined || guard.versions === '*') continue;
      const isNamed = guard.versions.includes(version);
      if (isNamed !== (status === 304 || guard.header === 'if-match')) {
        this.#fail('wrong condition', `answered ${status} with version ${version}`, entry);
      }
    }
    for (const sighting of sightings) {
      const { entry, fields, isWhole } = sighting;
      const matching = this.matching(sighting);
      const [from] = matching.toSorted((a, b) => a - b);
      if (from !== undefined) this.#see(entry, from, Math.max(...matching));
      else if (!this.#maybes.some((maybe) => maybe.start <= entry.end && couldMake(maybe, fields, isWhole))) {
        // A creation without a response may have been seen before any version was.
        const made = this.#evidence.entries.some((e) => e.kind === 'create' && couldMake(e, fields, isWhole));
        if (!made || this.fields(1) !== undefined) {
          this.#fail('value that never was', `seen as ${JSON.stringify(fields)}`, entry);
        }
      }
    }
  }

  /** One of the versions was current at some moment of the request. */
  #see(entry: Entry, from: number, to: number): void {
    narrow(this.begin(from), { hi: entry.end }, entry);
    narrow(to < this.#last ? this.begin(to + 1) : this.#gone, { lo: entry.start }, entry);
  }

  #findEnd(): void {
    const { entries, cascades, dependents } = this.#evidence;
    const own = entries.filter(({ kind }) => kind === 'delete');
    const deleted = own.filter(isSuccess);
    if (deleted.length > 1) this.#fail('deleted twice', 'two deletions succeeded', ...deleted);
    const certain = deleted.length > 0 ? deleted : cascades.filter(isSuccess);
    const perhaps =
      deleted.length > 0
        ? deleted
        : [...own.filter(isUnknown), ...cascades.filter((c) => isSuccess(c) || isUnknown(c))];
    for (const entry of dependents) {
      if (!isSuccess(entry) || entry.replayed === true) continue;
      narrow(this.begin(1), { hi: entry.end }, entry);
      narrow(this.#gone, { lo: entry.start }, entry);
    }
    this.#canBeGone = perhaps.length > 0;
    this.#isGone = certain.length > 0;
    narrow(this.#gone, { lo: Math.min(...perhaps.map(({ start }) => start)) }, perhaps[0]);
    for (const entry of [...certain, ...cascades.filter(isSuccess)])
      narrow(this.#gone, { hi: entry.end }, entry);
    for (const entry of deleted) if (this.#maybes.length === 0) this.#checkGuard(entry, [this.#last]);
    const created = this.begin(1);
    const misses = [...entries, ...dependents.filter(({ post }) => post === undefined)].filter(isNotFound);
    for (const entry of misses) {
      if (entry.kind === 'create' && this.kind === 'post') continue;
      if (created.hi > entry.start) continue;
      if (!this.#canBeGone)
        this.#fail('wrong 404', 'not found, though nothing deleted it', created.hiBy, entry);
      this.#isGone = true;
      narrow(this.#gone, { hi: entry.end }, entry);
    }
  }

  /** Each version begins after the one before it. */
  #propagate(): void {
    const moments = Array.from({ length: this.#last }, (_, i) => this.begin(i + 1));
    if (this.#canBeGone) moments.push(this.#gone);
    for (const [i, { lo, loBy }] of moments.entries()) {
      const next = moments[i + 1];
      if (next !== undefined) narrow(next, { lo }, loBy);
    }
    for (const [i, { hi, hiBy }] of [...moments.entries()].reverse()) {
      const previous = moments[i - 1];
      if (previous !== undefined) narrow(previous, { hi }, hiBy);
    }
    for (const [i, { lo, hi, loBy, hiBy }] of moments.entries()) {
      if (lo <= hi) continue;
      const what = i === this.#last ? 'it was gone' : `version ${i + 1}`;
      this.#fail(
        'not linearizable',
        `${what} at ${hi.toFixed(1)} ms at the latest, but not before ${lo.toFixed(1)} ms`,
        hiBy,
        loBy,
      );
      return;
    }
  }

  /** A 412 needs another version at some moment of the request. */
  #checkRefusals(): void {
    for (const entry of this.#evidence.entries) {
      const { status, guard } = entry;
      if (status !== 412) continue;
      const named = guard?.versions ?? '*';
      const isPossible = named !== '*' && this.possible(entry).some((version) => !named.includes(version));
      if (isPossible || (named !== '*' && this.mayBe(entry).unknown)) continue;
      this.#fail('wrong 412', 'refused, though the version was the one expected', entry);
    }
  }
}
