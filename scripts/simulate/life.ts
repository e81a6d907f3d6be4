import { isDeepStrictEqual } from 'node:util';
import type { Evidence, Operation } from './evidence.ts';
import { type Entry, type Fields, fieldsOf, type Row, type Span, tokenOf } from './history.ts';

/** A broken promise, and the requests that show it. */
export interface Violation {
  readonly rule: string;
  readonly message: string;
  readonly culprits: readonly Entry[];
  /** `user 3` or `post 7`, if it is about one record. */
  readonly record?: string;
}

/** A state of a record. It began after the start of one request, and before the end of another. */
interface State {
  /** `absent`, a version, `later` for all versions above those that a response had, or `gone`. */
  readonly name: string;
  readonly version?: number;
  /** Absent if no response showed them. */
  readonly fields?: Fields | undefined;
  after?: Entry;
  before?: Entry;
  next?: State;
}

export function beginOf({ after }: State): number {
  return after?.start ?? Number.NEGATIVE_INFINITY;
}

export function endOf({ next }: State): number {
  return next?.before?.end ?? Number.POSITIVE_INFINITY;
}

export function isAlive({ name }: State): boolean {
  return name !== 'absent' && name !== 'gone';
}

/** The fields of a record after a write. */
function applied(fields: Fields | undefined, { kind, record, sent }: Entry): Fields {
  const before = kind === 'patch' ? fields : record === 'post' ? { body: '' } : {};
  const after = Object.entries({ ...before, ...sent });
  return Object.fromEntries(after.filter((field): field is [string, string] => field[1] !== null));
}

/** Whether a write may have made what a row of a list, or a name over gRPC, shows. */
function couldMake({ entry: { sent = {}, start } }: Operation, { kind, row, entry }: Operation): boolean {
  const shown = Object.entries(sent).filter(([name]) => kind !== 'name' || name === 'name');
  return start <= entry.end && shown.every(([name, value]) => (Object(row)[name] ?? null) === value);
}

/**
 * What the responses prove about one record. It passes through its states in order, and each begins at one moment.
 * Every response shows that the record had one of certain states at some moment of the request, which narrows down
 * when these states began and ended. If none of them was possible then, a promise is broken.
 */
export class Life {
  readonly name: string;
  readonly evidence: Evidence;
  readonly violations: Violation[] = [];
  /** The highest version that a response had; 0 if none had one. */
  readonly last: number;
  /** Writes that may have happened, and that made none of the versions. */
  readonly maybes: ReadonlySet<Operation>;
  readonly #states: State[] = [{ name: 'absent' }];

  constructor(evidence: Evidence) {
    this.evidence = evidence;
    this.name = `${evidence.kind} ${evidence.id}`;
    this.#findVersions();
    this.last = this.#states.length - 1;
    this.maybes = this.#findWriters();
    if (this.maybes.size > 0 || this.last === 0) this.#add({ name: 'later' });
    const ends = evidence.operations.filter(({ kind }) => kind === 'delete' || kind === 'cascade');
    const deletions = ends.filter(({ kind, outcome }) => kind === 'delete' && outcome === 'done');
    const possible = ends.filter(({ outcome }) => outcome === 'done' || outcome === 'unknown');
    if (possible.length > 0) this.#begin(this.#add({ name: 'gone' }), deletions, possible, 'deleted twice');
    this.#narrow();
  }

  /** The fields of a version, if a response showed them. */
  fieldsOf(version: number): Fields | undefined {
    return this.#states[version]?.fields;
  }

  /** Whether it is deleted at the end. */
  get isGone(): 'no' | 'perhaps' | 'yes' {
    const state = this.#states.at(-1);
    return state?.name !== 'gone' ? 'no' : state.before === undefined ? 'perhaps' : 'yes';
  }

  /** The states that it may have had at some moment. */
  during({ start, end }: Span): State[] {
    const isEarly = [...this.maybes].every(({ entry }) => entry.start > end);
    const possible = this.#states.filter((state) => beginOf(state) <= end && endOf(state) >= start);
    return possible.filter(({ name }) => name !== 'later' || !isEarly);
  }

  #add(state: State): State {
    Object.assign(this.#states.at(-1) ?? {}, { next: state });
    this.#states.push(state);
    return state;
  }

  #fail(rule: string, message: string, ...culprits: (Entry | undefined)[]): void {
    const found = culprits.filter((entry) => entry !== undefined);
    this.violations.push({ rule, message: `${this.name}: ${message}`, record: this.name, culprits: found });
  }

  /** Finds the fields of each version. */
  #findVersions(): void {
    const { id, operations } = this.evidence;
    const rows = new Map<number, Row>();
    for (const { entry, row, version } of operations) {
      if (row === undefined || version === undefined) continue;
      const known = rows.get(version) ?? row;
      rows.set(version, row);
      if (isDeepStrictEqual(known, row) && row.id === id && (row.userId ?? entry.user) === entry.user)
        continue;
      const message = `version ${version} is ${JSON.stringify(known)} and ${JSON.stringify(row)}`;
      this.#fail('one version, two values', message, entry);
    }
    const last = Math.max(0, ...operations.map(({ version = 0 }) => version));
    for (let version = 1; version <= last; version += 1) {
      const row = rows.get(version);
      this.#add({ name: `version ${version}`, version, fields: row && fieldsOf(row) });
    }
  }

  /** A state began with one of these requests: one that did it for certain, or else one that may have. */
  #begin(
    state: State,
    certain: readonly Operation[],
    possible: readonly Operation[],
    rule: string,
  ): Operation[] {
    const makers = certain.length > 0 ? [...certain] : [...possible];
    const [first] = makers.sort((a, b) => a.entry.start - b.entry.start);
    if (first) state.after = first.entry;
    const entries = certain.map(({ entry }) => entry);
    if (certain.length > 1) this.#fail(rule, `two requests made it ${state.name}`, ...entries);
    return makers;
  }

  /** Finds the request that made each version. Returns those that may have made other versions. */
  #findWriters(): ReadonlySet<Operation> {
    const { operations } = this.evidence;
    const writes = operations.filter(({ kind, entry: { sent = {} } }) => {
      return ['create', 'replace', 'patch'].includes(kind) && Object.keys(sent).length > 0;
    });
    const unknown = new Set(writes.filter(({ outcome }) => outcome === 'unknown'));
    if (!operations.some(({ kind }) => kind === 'create' || kind === 'replayed')) {
      this.#fail('out of nowhere', 'no request created it', operations[0]?.entry);
    }
    let gaps = 0;
    for (const state of this.#states.slice(1)) {
      const { version = 0, fields } = state;
      const before = this.fieldsOf(version - 1);
      if (fields === undefined) gaps += 1;
      if (fields === undefined) continue;
      const isChange = !isDeepStrictEqual(before, fields);
      const results = ({ kind, entry }: Operation) =>
        isChange &&
        (kind === 'create') === (version === 1) &&
        isDeepStrictEqual(applied(before ?? fields, entry), fields);
      const answered = writes.filter((write) => write.version === version);
      const certain = answered.filter(({ entry }) => tokenOf(entry.sent) !== undefined);
      const rule = version === 1 ? 'id given twice' : 'lost update';
      const [maker, other] = this.#begin(state, certain, [...answered, ...unknown].filter(results), rule);
      if (maker === undefined) this.#fail('out of nowhere', `no request wrote version ${version}`);
      else if (!results(maker)) this.#fail(rule, `version ${version} has another change too`, maker.entry);
      // A write without a response that made a version has happened for certain.
      else if (other === undefined) unknown.delete(maker);
    }
    if (gaps > unknown.size) this.#fail('out of nowhere', `no request wrote ${gaps} of its versions`);
    return unknown;
  }

  /** Whether an operation can show a state. */
  #fits(state: State, operation: Operation): boolean {
    const { kind, outcome, entry, row, version } = operation;
    const { sent, guard } = entry;
    const { name, fields } = state;
    const named = guard?.versions ?? '*';
    const isNamed = (other = 0) => named === '*' || named.includes(other);
    if (outcome === 'missing') return !isAlive(state);
    if (outcome === 'refused') return isAlive(state) && !isNamed(state.version);
    if (kind === 'alive') return isAlive(state);
    if (kind === 'replayed') return name !== 'absent';
    if (kind === 'cascade') return name === 'gone';
    if (kind === 'delete') return name === 'gone' && (this.maybes.size > 0 || isNamed(this.last));
    if (version !== undefined && version !== state.version) return false;
    if (version !== undefined && sent === undefined) {
      return isNamed(version) === (outcome === 'same' || guard?.header !== 'if-none-match');
    }
    if (version !== undefined) {
      // A write without a text of its own may have changed nothing, which keeps the version.
      const isMet = isNamed(version - 1) || (tokenOf(sent) === undefined && isNamed(version));
      return isMet && isDeepStrictEqual(applied(fields, entry), fields);
    }
    if (row === undefined || !isAlive(state)) return false;
    if (fields === undefined) return [...this.maybes].some((write) => couldMake(write, operation));
    return kind === 'name' ? fields['name'] === row.name : isDeepStrictEqual(fields, fieldsOf(row));
  }

  /** Narrows down when the states began, until no response narrows it further or contradicts it. */
  #narrow(): void {
    const states = this.#states;
    const shown = this.evidence.operations
      .filter(({ outcome }) => outcome !== 'unknown')
      .map((operation) => ({ operation, fitting: states.filter((state) => this.#fits(state, operation)) }));
    let isMoving = true;
    const notBefore = (state: State | undefined, entry: Entry | undefined) => {
      if (!state || !entry || entry.start <= beginOf(state)) return;
      state.after = entry;
      isMoving = true;
    };
    const notAfter = (state: State, entry: Entry | undefined) => {
      if (!entry || entry.end >= (state.before?.end ?? Number.POSITIVE_INFINITY)) return;
      state.before = entry;
      isMoving = true;
    };
    while (isMoving && this.violations.length === 0) {
      isMoving = false;
      for (const state of states) notBefore(state.next, state.after);
      for (const state of states.toReversed()) {
        notAfter(state, state.next?.before);
        const { name, after, before } = state;
        if (before === undefined || beginOf(state) <= before.end) continue;
        this.#fail('not linearizable', `${name} was seen before its writer or an older state`, before, after);
      }
      for (const { operation, fitting } of shown) {
        const possible = this.during(operation.entry).filter((state) => fitting.includes(state));
        const [first, last] = [possible[0], possible.at(-1)];
        if (first === undefined || last === undefined) {
          this.#contradict(operation, fitting);
          break;
        }
        notAfter(first, operation.entry);
        notBefore(last.next, operation.entry);
      }
    }
  }

  /** Reports a response that shows none of the states that were possible. */
  #contradict({ kind, outcome, entry, row, version }: Operation, fitting: readonly State[]): void {
    const over = fitting.findLast((state) => endOf(state) < entry.start);
    const state = over ?? fitting[0];
    const isWrite = entry.guard !== undefined && kind !== 'read';
    const value = version === undefined ? 'value that never was' : 'wrong response';
    let rule = state ? 'not linearizable' : isWrite ? 'ignored If-Match' : value;
    if (outcome === 'missing') rule = 'wrong 404';
    if (outcome === 'refused') rule = 'wrong 412';
    const when = state ? `, but ${state.name} was ${over ? 'over' : 'not yet'}` : '';
    const message = `a ${kind} shows ${JSON.stringify(row ?? outcome)}${when}`;
    this.#fail(rule, message, over ? over.next?.before : state?.after, entry);
  }
}
