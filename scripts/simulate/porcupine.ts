import { execFile, spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Evidence, fieldsOf, isNotFound, isSuccess, isUnknown } from './evidence.ts';
import type { Entry } from './history.ts';
import type { Verdict } from './model.ts';

const cwd = fileURLToPath(new URL('porcupine', import.meta.url));
let built: Promise<string> | undefined;

/** Compiles the program; fails without Go. */
async function build(): Promise<string> {
  const program = join(await mkdtemp(join(tmpdir(), 'simulate-porcupine-')), 'porcupine');
  const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/local/go/bin` };
  await promisify(execFile)('go', ['build', '-o', program, '.'], { cwd, env });
  return program;
}

/** The verdicts of the two judges on the records of a history. */
export interface Comparison {
  readonly records: number;
  /** Records without a verdict of Porcupine in 10 s. */
  readonly undecided: number;
  readonly disagreements: readonly string[];
}

/** Gives every record to Porcupine too; resolves to the reason if it cannot run. */
export async function compareJudges({ evidence, violations }: Verdict): Promise<Comparison | string> {
  built ??= build();
  try {
    const child = spawn(await built, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.end(evidence.map((one) => `${JSON.stringify(operationsOf(one))}\n`).join(''));
    const output = Buffer.concat(await child.stdout.toArray()).toString();
    const verdicts = output.split('\n').filter(Boolean);
    if (verdicts.length !== evidence.length) return 'Porcupine has crashed';
    const broken = new Set(violations.filter(({ isOfTimeline }) => isOfTimeline).map(({ record }) => record));
    const disagreements = evidence.flatMap(({ kind, id }, i) => {
      const accepted = broken.has(`${kind} ${id}`) ? 'Ok' : 'Illegal';
      return verdicts[i] === accepted ? [`${kind} ${id}: Porcupine ${accepted}`] : [];
    });
    const undecided = verdicts.filter((verdict) => verdict === 'Unknown').length;
    return { records: verdicts.length - undecided, undecided, disagreements };
  } catch (caught) {
    return `Porcupine is left out: ${caught instanceof Error ? caught.message.split('\n')[0] : caught}`;
  }
}

type Outcome = 'done' | 'same' | 'missing' | 'refused' | 'unknown';

function operationsOf({ entries, sightings, cascades, dependents }: Evidence): object[] {
  return [
    // The names that calls showed are among the sightings.
    ...entries.filter((e) => e.kind !== 'call' || isNotFound(e)).flatMap((e) => toOperation(e)),
    ...sightings.flatMap(({ entry, fields }) => {
      const kind = entry.kind === 'list' ? 'read' : 'name';
      return { kind, outcome: 'done', call: entry.start, return: entry.end, fields };
    }),
    ...cascades.filter((e) => isSuccess(e) || isUnknown(e)).flatMap((e) => toOperation(e, 'cascade')),
    ...dependents.filter((e) => isSuccess(e) && !e.replayed).flatMap((e) => toOperation(e, 'alive', 'done')),
    ...dependents
      .filter((e) => isNotFound(e) && e.post === undefined)
      .flatMap((e) => toOperation(e, 'alive', 'missing')),
  ];
}

function toOperation(entry: Entry, as?: string, outcome = outcomeOf(entry)): object[] {
  const { kind, record, start, end, sent, guard, version, row, replayed } = entry;
  const isWrite = sent !== undefined || kind === 'delete';
  // A read without a response shows nothing, and neither does another rejection.
  if (outcome === undefined || (outcome === 'unknown' && !isWrite)) return [];
  const operation = {
    kind: as ?? (replayed ? 'replayed' : isWrite ? kind : 'read'),
    outcome,
    call: start,
    return: outcome === 'unknown' ? undefined : end,
    sent: record === 'post' && kind === 'replace' ? { body: '', ...sent } : sent,
    header: guard?.header,
    versions: guard?.versions === '*' ? undefined : guard?.versions,
    version: as === undefined ? version : undefined,
    fields: row && fieldsOf(row),
  };
  return [operation];
}

function outcomeOf(entry: Entry): Outcome | undefined {
  const { kind, status } = entry;
  if (isUnknown(entry)) return 'unknown';
  if (isSuccess(entry)) return status === 304 ? 'same' : 'done';
  if (kind === 'create') return undefined;
  return isNotFound(entry) ? 'missing' : status === 412 ? 'refused' : undefined;
}
