import { execFile, spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Evidence, fieldsOf, isNotFound, isSuccess, isUnknown } from './evidence.ts';
import type { Entry, Fields } from './history.ts';
import type { Verdict } from './model.ts';

const folder = fileURLToPath(new URL('porcupine', import.meta.url));
let built: Promise<{ program: string } | { missing: string }> | undefined;

/** Compiles the program once; without Go there is none. */
async function build(): Promise<{ program: string } | { missing: string }> {
  const program = join(await mkdtemp(join(tmpdir(), 'simulate-porcupine-')), 'porcupine');
  const PATH = `${process.env['PATH']}:/usr/local/go/bin`;
  try {
    await promisify(execFile)('go', ['build', '-o', program, '.'], {
      cwd: folder,
      env: { ...process.env, PATH },
    });
    return { program };
  } catch (caught) {
    return {
      missing: `Porcupine is left out: ${caught instanceof Error ? caught.message.split('\n')[0] : caught}`,
    };
  }
}

/** What the two judges say of the records of a history. */
export interface Comparison {
  readonly records: number;
  /** Records that Porcupine had no time for. */
  readonly undecided: number;
  readonly disagreements: readonly string[];
}

/** Gives every record to Porcupine too; resolves to a text where it cannot run. */
export async function compareJudges({ evidence, violations }: Verdict): Promise<Comparison | string> {
  built ??= build();
  const result = await built;
  if ('missing' in result) return result.missing;
  const child = spawn(result.program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(evidence.map((one) => `${JSON.stringify(toRecord(one))}\n`).join(''));
  const output = Buffer.concat(await child.stdout.toArray()).toString();
  const verdicts: { record: string; verdict: string }[] = output
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  if (verdicts.length !== evidence.length) return 'Porcupine has crashed';
  const broken = new Set(violations.filter(({ isOfTimeline }) => isOfTimeline).map(({ record }) => record));
  const decided = verdicts.filter(({ verdict }) => verdict !== 'Unknown');
  const differing = decided.filter(({ record, verdict }) => broken.has(record) !== (verdict === 'Illegal'));
  return {
    records: decided.length,
    undecided: verdicts.length - decided.length,
    disagreements: differing.map(({ record, verdict }) => `${record}: Porcupine ${verdict}`),
  };
}

interface Operation {
  readonly kind: string;
  readonly outcome: 'done' | 'same' | 'missing' | 'refused' | 'unknown';
  readonly client: number;
  readonly call: number;
  readonly return?: number;
  readonly sent?: Entry['sent'];
  readonly header?: string | undefined;
  readonly versions?: readonly number[];
  readonly version?: number;
  readonly fields?: Fields;
}

function toRecord({ kind, id, entries, sightings, cascades, dependents }: Evidence) {
  const operations = [
    ...entries
      .filter((entry) => entry.kind !== 'call' || isNotFound(entry))
      .map((entry) => toOperation(entry)),
    ...sightings.map(({ entry, fields, isWhole }) => ({
      ...toOperation(entry, isWhole ? 'read' : 'name', 'done'),
      fields,
    })),
    ...cascades.filter((e) => isSuccess(e) || isUnknown(e)).map((entry) => toOperation(entry, 'cascade')),
    ...dependents
      .filter((e) => isSuccess(e) && !e.replayed)
      .map((entry) => toOperation(entry, 'alive', 'done')),
    ...dependents
      .filter((e) => isNotFound(e) && e.post === undefined)
      .map((e) => toOperation(e, 'alive', 'missing')),
  ];
  return { record: `${kind} ${id}`, operations: operations.filter((operation) => operation !== undefined) };
}

function toOperation(entry: Entry, as?: string, outcome = outcomeOf(entry)): Operation | undefined {
  const { kind, record, client, start, end, sent, guard, version, row, replayed } = entry;
  const isWrite = kind === 'create' || kind === 'replace' || kind === 'patch' || kind === 'delete';
  // A read without a response shows nothing, nor does what was refused for another reason.
  if (outcome === undefined || (outcome === 'unknown' && !isWrite)) return undefined;
  const isReplay = kind === 'create' && replayed === true;
  return {
    kind: as ?? (isReplay ? 'replayed' : isWrite ? kind : 'read'),
    outcome,
    client,
    call: start,
    ...(outcome !== 'unknown' && { return: end }),
    ...(sent && { sent: record === 'post' && kind === 'replace' ? { body: '', ...sent } : sent }),
    ...(guard && { header: guard.header }),
    ...(guard && guard.versions !== '*' && { versions: guard.versions }),
    ...(as === undefined && version !== undefined && { version }),
    ...(row && { fields: fieldsOf(row) }),
  };
}

function outcomeOf(entry: Entry): Operation['outcome'] | undefined {
  if (isUnknown(entry)) return 'unknown';
  if (isSuccess(entry)) return entry.status === 304 ? 'same' : 'done';
  if (entry.kind === 'create') return undefined;
  return isNotFound(entry) ? 'missing' : entry.status === 412 ? 'refused' : undefined;
}
