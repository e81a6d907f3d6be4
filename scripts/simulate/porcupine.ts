import { execFile, spawn } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Operation } from './evidence.ts';
import { fieldsOf } from './history.ts';
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

/** Gives every record to Porcupine too. Returns its verdicts, and the records on which the judges disagree. */
export async function compareJudges({ lives }: Verdict) {
  built ??= build();
  const program = await built.catch((error: Error) => error);
  if (program instanceof Error)
    return { verdicts: [`left out: ${program.message.split('\n')[0]}`], disagreements: [] };
  const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(
    lives.map(({ evidence }) => `${JSON.stringify(evidence.operations.map(toInput))}\n`).join(''),
  );
  const verdicts = Buffer.concat(await child.stdout.toArray())
    .toString()
    .split('\n')
    .slice(0, -1);
  if (verdicts.length !== lives.length) throw new Error('Porcupine has crashed');
  const disagreements = lives.filter(
    ({ violations }, i) => verdicts[i] === (violations.length > 0 ? 'Ok' : 'Illegal'),
  );
  return { verdicts, disagreements: disagreements.map(({ name }) => name) };
}

function toInput({ kind, outcome, entry, row, version }: Operation): object {
  const { start, end, sent, guard, record } = entry;
  return {
    kind,
    outcome,
    call: start,
    return: outcome === 'unknown' ? undefined : end,
    sent: record === 'post' && kind === 'replace' ? { body: '', ...sent } : sent,
    header: guard?.header,
    versions: guard?.versions === '*' ? undefined : guard?.versions,
    version,
    fields: row && fieldsOf(row),
  };
}
