import { isDeepStrictEqual } from 'node:util';
import type { Evidence, Operation } from './evidence.ts';
import { type Entry, fieldsOf, tokenOf } from './history.ts';
import type { Fields } from './plan.ts';

/** A broken promise, and the requests that show it. */
export interface Violation {
  readonly rule: string;
  readonly message: string;
  readonly culprits?: readonly Entry[];
  /** `user 3` or `post 7`, if it is about one record. */
  readonly record?: string;
}

/** A state of a record. It began after the start of one request, and before the end of another. */
export interface State {
  /** `absent`, a version, or `gone`. */
  readonly name: string;
  /** Of a version, as `fields`. */
  readonly version?: number;
  readonly fields?: Fields;
  /** Of its change in the feed. */
  readonly position: number;
  /** The request that made it, if it had a response. */
  maker?: Entry | undefined;
  after?: Entry;
  before?: Entry;
  readonly previous?: State | undefined;
  next?: State;
}

export function beginOf({ after }: State): number {
  return after?.start ?? Number.NEGATIVE_INFINITY;
}

export function endOf({ next }: State): number {
  return next?.before?.end ?? Number.POSITIVE_INFINITY;
}

/** The fields of a record after a write. */
function applied(fields: Fields | undefined, { kind, sent }: Entry): Fields {
  const after = Object.entries({ ...(kind === 'patch' && fields), ...sent });
  return Object.fromEntries(after.filter(([, value]) => value !== null));
}

/** What is wrong if a write was answered, but did not make the state that its response shows. */
const rules: Partial<Record<Operation['kind'], string>> = {
  create: 'id given twice',
  replace: 'lost update',
  patch: 'lost update',
  delete: 'wrong deletion',
};

/** Whether a write may have made a state out of the one before. */
function makes({ kind, outcome, entry, version }: Operation, { name, previous, ...state }: State): boolean {
  const isPossible = outcome === 'unknown' || (outcome === 'done' && version === state.version);
  if (name === 'gone') return kind === 'cascade' || (kind === 'delete' && isPossible);
  const isMade = kind === 'create' ? state.version === 1 : kind === 'replace' || kind === 'patch';
  const isChange = !isDeepStrictEqual(previous?.fields, state.fields);
  return (
    isPossible && isMade && isChange && isDeepStrictEqual(applied(previous?.fields, entry), state.fields)
  );
}

/** Whether a response can be true while the record has a state, or made it. */
function fits(state: State, operation: Operation): boolean {
  const { kind, outcome, entry, row, version } = operation;
  const { guard, sent } = entry;
  const { name, fields, previous, next } = state;
  const isMet = (one: State | undefined) => guard?.version === undefined || guard.version === one?.version;
  if (outcome === 'missing') return fields === undefined;
  if (kind === 'cascade') return fields === undefined && next === undefined;
  if (outcome === 'refused') return fields !== undefined && !isMet(state);
  if (kind === 'replayed') return name !== 'absent';
  if (kind === 'delete') return name === 'gone' && isMet(previous);
  if (fields === undefined || (version ?? state.version) !== state.version) return false;
  if (kind === 'alive') return true;
  if (kind === 'name') return fields['name'] === row?.name;
  if (row && !isDeepStrictEqual(fields, fieldsOf(row))) return false;
  if (kind === 'read') {
    return (
      version === undefined || isMet(state) === (outcome === 'same' || guard?.header !== 'if-none-match')
    );
  }
  // A write without a text of its own may have changed nothing, which keeps the version.
  const isNeedless = tokenOf(sent) === undefined && isDeepStrictEqual(applied(fields, entry), fields);
  return (isNeedless && isMet(state)) || (isMet(previous) && makes(operation, state));
}

/**
 * What is known of one record. The feed has its states in their order, and each began at one moment. Every response
 * shows that the record had one of certain states at some moment of the request, which narrows down when these
 * states began and ended. If none of them was possible then, a promise is broken.
 */
export class Life {
  readonly name: string;
  readonly evidence: Evidence;
  readonly violations: Violation[] = [];
  readonly states: readonly State[];

  constructor(evidence: Evidence) {
    this.evidence = evidence;
    this.name = `${evidence.kind} ${evidence.id}`;
    this.states = this.#findStates();
    if (this.violations.length === 0) this.#narrow();
  }

  /** The states that it may have had at some moment of a request. */
  during({ start, end }: Entry): State[] {
    return this.states.filter((state) => beginOf(state) <= end && endOf(state) >= start);
  }

  #fail(rule: string, message: string, ...culprits: (Entry | undefined)[]): void {
    const found = culprits.filter((entry) => entry !== undefined);
    this.violations.push({ rule, message: `${this.name}: ${message}`, record: this.name, culprits: found });
  }

  /** Finds the states, and the request that made each. */
  #findStates(): State[] {
    const { changes, operations } = this.evidence;
    const states: State[] = [{ name: 'absent', position: 0 }];
    for (const [i, { id, type, version, data }] of changes.entries()) {
      const isGone = type.endsWith('.deleted') && i === changes.length - 1;
      const expected = isGone ? `deleted ${i}` : `${i === 0 ? 'created' : 'updated'} ${i + 1}`;
      const isExpected = `${type} ${version}`.endsWith(`.${expected}`);
      if (!isExpected) this.#fail('wrong feed', `${type} ${version} in the place of ${expected}`);
      const kept = isGone
        ? { name: 'gone' }
        : { name: `version ${version}`, version, fields: fieldsOf(data) };
      const state: State = { ...kept, position: Number(id), previous: states[i] };
      Object.assign(states[i] ?? {}, { next: state });
      states.push(state);
      const makers = operations.filter((one) => makes(one, state));
      makers.sort((a, b) => a.entry.start - b.entry.start);
      // A patch without a text of its own may have found the record so.
      const certain = makers.filter(({ kind, outcome, entry: { sent } }) => {
        return outcome === 'done' && (kind === 'delete' || tokenOf(sent) !== undefined);
      });
      const maker = certain[0] ?? makers[0];
      state.maker = certain[0]?.entry;
      if (maker) state.after = maker.entry;
      const claims = maker ? certain.slice(1) : operations.filter((one) => version === one.version);
      const claim = claims.find(({ kind }) => kind in rules);
      const rule = rules[claim?.kind ?? 'read'] ?? 'out of nowhere';
      const message = `${maker ? 'two requests' : 'no request'} made it ${state.name}`;
      if (!maker || claim) this.#fail(rule, message, maker?.entry, claim?.entry);
    }
    return states;
  }

  /** Narrows down when the states began, until no response narrows it further or contradicts it. */
  #narrow(): void {
    const { states } = this;
    const shown = this.evidence.operations
      .filter(({ outcome }) => outcome !== 'unknown')
      .map((operation) => ({ operation, fitting: states.filter((state) => fits(state, operation)) }));
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
    while (isMoving) {
      isMoving = false;
      for (const state of states) notBefore(state.next, state.after);
      for (const state of states.toReversed()) notAfter(state, state.next?.before);
      for (const { operation, fitting } of shown) {
        const possible = this.during(operation.entry).filter((state) => fitting.includes(state));
        if (possible[0] === undefined) {
          this.#contradict(operation, fitting);
          return;
        }
        notAfter(possible[0], operation.entry);
        notBefore(possible.at(-1)?.next, operation.entry);
      }
    }
  }

  /** Reports a response that shows none of the states that were possible. */
  #contradict({ kind, outcome, entry, row }: Operation, fitting: readonly State[]): void {
    const over = fitting.findLast((state) => endOf(state) < entry.start);
    const state = over ?? fitting[0];
    const isGuarded = kind in rules && entry.guard !== undefined;
    const never = isGuarded ? 'ignored If-Match' : (rules[kind] ?? 'value that never was');
    let rule = state ? 'not linearizable' : never;
    if (outcome === 'missing') rule = 'wrong 404';
    if (outcome === 'refused') rule = 'wrong 412';
    const when = state ? `, but ${state.name} was ${over ? 'over' : 'not yet'}` : '';
    const message = `a ${kind} shows ${JSON.stringify(row ?? outcome)}${when}`;
    this.#fail(rule, message, over ? over.next?.before : state?.after, entry);
  }
}
