import { isDeepStrictEqual } from 'node:util';
import {
  agrees,
  applied,
  type Evidence,
  fieldsOf,
  isNotFound,
  isSuccess,
  isUnknown,
  tokenOf,
} from './evidence.ts';
import type { Entry } from './history.ts';
import { couldMake, earliest, notAfter, notBefore, Timeline } from './timeline.ts';

/**
 * Finds out what the responses prove about one record. Its versions are a total order, and each begins at one
 * moment. Every response narrows down when. If no time is left for a moment, a promise is broken.
 */
export function deduce(evidence: Evidence): Timeline {
  const timeline = new Timeline(evidence);
  findValues(timeline);
  findWriters(timeline);
  observe(timeline);
  findEnd(timeline);
  order(timeline);
  checkRefusals(timeline);
  return timeline;
}

/** Finds the fields of each version. */
function findValues(timeline: Timeline): void {
  const { evidence, fields: values } = timeline;
  for (const entry of evidence.entries) {
    const { version, row, user, sent } = entry;
    if (!isSuccess(entry) || version === undefined || row === undefined) continue;
    const fields = fieldsOf(row);
    const known = values[version];
    if (row.id !== evidence.id || (row.userId ?? user) !== user) {
      timeline.fail('wrong record', `the response has ${JSON.stringify(row)}`, entry);
    }
    if (known !== undefined && !isDeepStrictEqual(known, fields)) {
      const message = `version ${version} has two values`;
      const other = evidence.entries.find((one) => one.version === version && one.row !== undefined);
      timeline.fail('one version, two values', message, other, entry);
    }
    if (sent !== undefined && !isDeepStrictEqual(applied(fields, entry), fields)) {
      timeline.fail('lost write', 'the response to a write differs from what it wrote', entry);
    }
    values[version] = fields;
  }
}

/** Finds the request that made each version. */
function findWriters(timeline: Timeline): void {
  const { evidence, fields: values, last } = timeline;
  const { entries } = evidence;
  const creations = entries.filter(({ kind }) => kind === 'create');
  const made = creations.filter(({ status }) => status === 201);
  const sure = made.filter(({ replayed }) => !replayed);
  if (sure.length > 1) timeline.fail('id given twice', 'two creations returned it', ...sure);
  if (creations.length === 0) timeline.fail('out of nowhere', 'no request created it', entries[0]);
  notBefore(timeline.begin(1), earliest(sure.length > 0 ? sure : creations), creations[0]);
  for (const entry of made) notAfter(timeline.begin(1), entry.end, entry);

  const writes = entries.filter(({ kind, sent = {} }) => kind !== 'create' && Object.keys(sent).length > 0);
  const unknown = new Set(writes.filter(isUnknown));
  let gaps = 0;
  for (let version = 2; version <= last; version += 1) {
    const before = values[version - 1];
    const fields = values[version];
    if (fields === undefined) {
      gaps += 1;
      continue;
    }
    const answered = writes.filter((write) => isSuccess(write) && write.version === version);
    const certain = answered.filter(({ sent }) => tokenOf(sent) !== undefined);
    if (certain.length > 1) timeline.fail('lost update', `two writes made version ${version}`, ...certain);
    const results = (write: Entry) =>
      before === undefined || isDeepStrictEqual(applied(before, write), fields);
    const makes = (write: Entry) =>
      results(write) && agrees(fields, write) && !isDeepStrictEqual(before, fields);
    const [writer] = certain;
    if (writer !== undefined && !results(writer)) {
      timeline.fail('lost update', `version ${version} has undone a part of version ${version - 1}`, writer);
    }
    const makers = writer ? [writer] : [...answered, ...unknown].filter(makes);
    const [maker] = makers;
    if (maker === undefined) {
      const shown = entries.find((entry) => entry.version === version);
      timeline.fail('out of nowhere', `no request wrote version ${version}`, shown);
    }
    notBefore(timeline.begin(version), earliest(makers), maker);
    const isOnlyOne = makers.length === 1;
    // A write without a response that made a version has happened for sure.
    if (maker !== undefined && isOnlyOne) unknown.delete(maker);
    for (const write of answered) {
      // A write that changes nothing keeps the version.
      const isMaker = makers.includes(write);
      const met = isMaker ? (isOnlyOne ? [version - 1] : [version - 1, version]) : [version];
      checkGuard(timeline, write, met);
    }
  }
  timeline.maybes = [...unknown];
  if (gaps > unknown.size) {
    timeline.fail('out of nowhere', `${gaps} versions that no request wrote`, entries.at(-1));
  }
}

/** A write must have met one of the versions it named. */
function checkGuard(timeline: Timeline, write: Entry, met: readonly number[]): void {
  const versions = write.guard?.versions ?? '*';
  if (versions === '*' || met.some((version) => versions.includes(version))) return;
  const message = `a write was made on version ${met.join(' or ')} despite its If-Match`;
  timeline.fail('ignored If-Match', message, write);
}

/** Narrows down the moments by the versions that responses showed. */
function observe(timeline: Timeline): void {
  const { evidence, last } = timeline;
  /** One of the versions was current at some moment of the request. */
  const see = (entry: Entry, from: number, to: number) => {
    notAfter(timeline.begin(from), entry.end, entry);
    notBefore(to < last ? timeline.begin(to + 1) : timeline.gone, entry.start, entry);
  };
  for (const entry of evidence.entries) {
    const { version, kind, guard, status, replayed } = entry;
    if (!isSuccess(entry) || version === undefined || replayed) continue;
    see(entry, version, version);
    if (kind !== 'get' || guard === undefined || guard.versions === '*') continue;
    if (guard.versions.includes(version) !== (status === 304 || guard.header === 'if-match')) {
      timeline.fail('wrong condition', `${status} with version ${version}`, entry);
    }
  }
  for (const sighting of evidence.sightings) {
    const { entry, fields } = sighting;
    const matching = timeline.matching(sighting);
    // A list may show a creation without a response before any response has its version.
    const isCreation = ({ kind }: Entry) => kind === 'create' && timeline.fields[1] === undefined;
    if (matching.length > 0) see(entry, Math.min(...matching), Math.max(...matching));
    else if (
      !timeline.isMaybe(sighting) &&
      !evidence.entries.some((write) => isCreation(write) && couldMake(write, sighting))
    ) {
      timeline.fail('value that never was', `seen as ${JSON.stringify(fields)}`, entry);
    }
  }
}

/** Finds when the record was deleted. */
function findEnd(timeline: Timeline): void {
  const { evidence, gone, last, maybes } = timeline;
  const { entries, cascades, dependents, kind } = evidence;
  const created = timeline.begin(1);
  const own = entries.filter((entry) => entry.kind === 'delete');
  const deleted = own.filter(isSuccess);
  const withUser = cascades.filter(isSuccess);
  if (deleted.length > 1) timeline.fail('deleted twice', 'two deletions succeeded', ...deleted);
  for (const entry of dependents) {
    if (!isSuccess(entry) || entry.replayed) continue;
    notAfter(created, entry.end, entry);
    notBefore(gone, entry.start, entry);
  }
  const perhaps =
    deleted.length > 0 ? deleted : [...own, ...cascades].filter((e) => isSuccess(e) || isUnknown(e));
  timeline.canBeGone = perhaps.length > 0;
  timeline.isGone = deleted.length + withUser.length > 0;
  notBefore(gone, earliest(perhaps), perhaps[0]);
  for (const entry of [...deleted, ...withUser]) notAfter(gone, entry.end, entry);
  for (const entry of maybes.length === 0 ? deleted : []) checkGuard(timeline, entry, [last]);
  const misses = [...entries, ...dependents.filter(({ post }) => post === undefined)].filter(isNotFound);
  for (const entry of misses) {
    const isOfUser = entry.kind === 'create' && kind === 'post';
    if (isOfUser || created.hi > entry.start) continue;
    if (!timeline.canBeGone) {
      timeline.fail('wrong 404', 'not found, but no request deleted it', created.hiBy, entry);
    }
    timeline.isGone = true;
    notAfter(gone, entry.end, entry);
  }
}

/** Each version begins after the one before it. */
function order(timeline: Timeline): void {
  const { versions, last, canBeGone, gone } = timeline;
  const moments = [...versions.map((version) => timeline.begin(version)), ...(canBeGone ? [gone] : [])];
  for (const [i, moment] of moments.entries()) {
    const previous = moments[i - 1];
    if (previous !== undefined) notBefore(moment, previous.lo, previous.loBy);
  }
  for (const [i, moment] of [...moments.entries()].reverse()) {
    const next = moments[i + 1];
    if (next !== undefined) notAfter(moment, next.hi, next.hiBy);
  }
  const impossible = moments.findIndex(({ lo, hi }) => lo > hi);
  const moment = moments[impossible];
  if (moment === undefined) return;
  const { lo, hi, loBy, hiBy } = moment;
  const what = impossible === last ? 'it was gone' : `version ${impossible + 1}`;
  const message = `${what} at ${hi.toFixed(1)} ms at the latest, but not before ${lo.toFixed(1)} ms`;
  timeline.fail('not linearizable', message, hiBy, loBy);
}

/** A 412 needs another version at some moment of the request. */
function checkRefusals(timeline: Timeline): void {
  for (const entry of timeline.evidence.entries) {
    if (entry.status !== 412) continue;
    const named = entry.guard?.versions ?? '*';
    const isPossible =
      named !== '*' && (timeline.isOpen(entry) || timeline.possible(entry).some((v) => !named.includes(v)));
    if (!isPossible) timeline.fail('wrong 412', 'rejected, but the version was the expected one', entry);
  }
}
