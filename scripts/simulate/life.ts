import { isDeepStrictEqual } from 'node:util';
import { type Evidence, type Operation, writes } from './evidence.ts';
import { type Entry, fieldsOf, isUnknown, tokenOf } from './history.ts';
import type { Fields } from './plan.ts';

/** A broken promise. The entries of the requests that show it are its culprits. */
export interface Violation {
  readonly rule: string;
  readonly message: string;
  readonly culprits?: readonly (Entry | undefined)[];
  /** What is known of the record, if it is about one. */
  readonly evidence?: Evidence;
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
  /** The request that made it; of several possible ones, the first. */
  maker?: Entry | undefined;
  after?: Entry | undefined;
  before?: Entry | undefined;
  readonly previous?: State;
  next?: State;
}

export function beginOf({ after }: State): number {
  return after?.start ?? Number.NEGATIVE_INFINITY;
}

export function endOf({ next }: State): number {
  return next?.before?.end ?? Number.POSITIVE_INFINITY;
}

/** The states that a record may have had at some moment of a request. */
export function during(states: readonly State[], { start, end }: Entry): State[] {
  return states.filter((state) => beginOf(state) <= end && endOf(state) >= start);
}

/** Notes that a state and all later ones began after the start of a request. Returns whether this is news. */
function notBefore(state: State | undefined, entry: Entry): boolean {
  if (!state || entry.start <= beginOf(state)) return false;
  state.after = entry;
  notBefore(state.next, entry);
  return true;
}

/** Notes that a state and all earlier ones began before the end of a request. Returns whether this is news. */
function notAfter(state: State | undefined, entry: Entry): boolean {
  if (!state || (state.before && entry.end >= state.before.end)) return false;
  state.before = entry;
  notAfter(state.previous, entry);
  return true;
}

/** The fields of a record after a write. */
function applied(fields: Fields | undefined, { kind, sent }: Entry): Fields {
  const after = Object.entries({ ...(kind === 'patch' && fields), ...sent });
  return Object.fromEntries(after.filter(([, value]) => value !== null));
}

/** Whether a write may have made a state out of the one before. */
function makes({ kind, entry, version }: Operation, { name, previous, ...state }: State): boolean {
  const { status = 500 } = entry;
  const isPossible = isUnknown(entry) || (status < 300 && version === state.version);
  if (name === 'gone') return kind === 'cascade' || (kind === 'delete' && isPossible);
  const isMade = kind === 'create' ? state.version === 1 : kind === 'replace' || kind === 'patch';
  const before = previous?.fields;
  const isChange = !isDeepStrictEqual(before, state.fields);
  return isPossible && isMade && isChange && isDeepStrictEqual(applied(before, entry), state.fields);
}

/** Whether a response can be true while the record has a state, or made it. */
function fits(state: State, operation: Operation): boolean {
  const { kind, entry, row, version } = operation;
  const { guard, sent, status } = entry;
  const { name, fields, previous, next } = state;
  const isMet = (one: State | undefined) => guard?.version === undefined || guard.version === one?.version;
  if (status === 404) return fields === undefined;
  if (kind === 'cascade') return fields === undefined && next === undefined;
  if (status === 412) return fields !== undefined && !isMet(state);
  if (kind === 'replayed') return name !== 'absent' && tokenOf(sent) === tokenOf(row);
  if (kind === 'delete') return name === 'gone' && isMet(previous);
  if (fields === undefined || (version ?? state.version) !== state.version) return false;
  if (kind === 'alive') return true;
  if (kind === 'call') return fields['name'] === row?.name;
  if (row && !isDeepStrictEqual(fields, fieldsOf(row))) return false;
  const isNoneMatch = guard?.header === 'if-none-match';
  if (!(kind in writes)) return status === 304 ? isNoneMatch && isMet(state) : isNoneMatch !== isMet(state);
  // A write without a text of its own may have changed nothing, which keeps the version.
  const isNeedless = tokenOf(sent) === undefined && isDeepStrictEqual(applied(fields, entry), fields);
  return (isNeedless && isMet(state)) || (isMet(previous) && makes(operation, state));
}

/** A record with its states. */
export type Life = ReturnType<typeof judgeRecord>;

/**
 * Judges a record. The feed has its states in their order, and each began at one moment. Every response shows that
 * the record had one of certain states at some moment of the request. This narrows down when these states began and
 * ended. If none of them was possible then, a promise is broken.
 */
export function judgeRecord(evidence: Evidence) {
  const { states, violations } = findStates(evidence);
  return { ...evidence, states, violations: violations.length > 0 ? violations : narrow(evidence, states) };
}

/** Finds the states, and the request that made each. */
function findStates(evidence: Evidence) {
  const { changes, operations } = evidence;
  const violations: Violation[] = [];
  let previous: State = { name: 'absent', position: 0 };
  const states = [previous];
  for (const [i, { id, type, version, data }] of changes.entries()) {
    const isGone = type.endsWith('.deleted') && i === changes.length - 1;
    const expected = isGone ? `deleted ${i}` : `${i === 0 ? 'created' : 'updated'} ${i + 1}`;
    if (!`${type} ${version}`.endsWith(`.${expected}`)) {
      violations.push({ rule: 'wrong feed', message: `${type} ${version}, not ${expected}`, evidence });
    }
    const kept = isGone ? { name: 'gone' } : { name: `version ${version}`, version, fields: fieldsOf(data) };
    const state: State = { ...kept, position: Number(id), previous, after: previous.after };
    previous.next = state;
    previous = state;
    states.push(state);
    const makers = operations.filter((one) => makes(one, state));
    makers.sort((a, b) => a.entry.start - b.entry.start);
    // A patch without a text of its own may have found the record so.
    const certain = makers.filter(({ kind, entry }) => {
      return !isUnknown(entry) && (kind === 'delete' || tokenOf(entry.sent) !== undefined);
    });
    const [maker = makers[0], rival] = certain;
    if (maker) notBefore(state, maker.entry);
    state.maker = maker?.entry;
    const claim = maker ? rival : operations.find((one) => one.kind in writes && one.version === version);
    if (maker && !claim) continue;
    const rule = (claim && writes[claim.kind]) ?? 'out of nowhere';
    const message = `${maker ? 'two requests' : 'no request'} made it ${state.name}`;
    violations.push({ rule, message, evidence, culprits: [maker?.entry, claim?.entry] });
  }
  return { states, violations };
}

/** Narrows down when the states began, until no response narrows it further or contradicts it. */
function narrow(evidence: Evidence, states: readonly State[]): Violation[] {
  const shown = evidence.operations
    .filter(({ entry }) => !isUnknown(entry))
    .map((operation) => ({ operation, fitting: states.filter((state) => fits(state, operation)) }));
  for (let isNews = true; isNews; ) {
    isNews = false;
    for (const { operation, fitting } of shown) {
      const { entry } = operation;
      const possible = during(fitting, entry);
      if (possible[0] === undefined) return [{ ...contradiction(operation, fitting), evidence }];
      isNews = notAfter(possible[0], entry) || isNews;
      isNews = notBefore(possible.at(-1)?.next, entry) || isNews;
    }
  }
  return [];
}

/** Describes a response that shows none of the states that were possible. */
function contradiction({ kind, entry, row }: Operation, fitting: readonly State[]): Violation {
  const { status, guard } = entry;
  const over = fitting.findLast((state) => endOf(state) < entry.start);
  const state = over ?? fitting[0];
  const never = guard && kind in writes ? 'ignored If-Match' : (writes[kind] ?? 'value that never was');
  const isRefusal = status === 404 || status === 412;
  const rule = isRefusal ? `wrong ${status}` : state ? 'not linearizable' : never;
  const when = state ? `, but ${state.name} was ${over ? 'over' : 'not yet'}` : '';
  const message = `a ${kind} shows ${JSON.stringify(row ?? status)}${when}`;
  return { rule, message, culprits: [over ? over.next?.before : state?.after, entry] };
}
