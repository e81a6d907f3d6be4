import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Operation } from './evidence.ts';
import { fieldsOf } from './history.ts';
import type { Verdict } from './model.ts';

const cwd = fileURLToPath(new URL('porcupine', import.meta.url));
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/local/go/bin` };

const program = join(tmpdir(), `simulate-porcupine-${process.pid}`);
let built: SpawnSyncReturns<string> | undefined;

/** Compiles the program once; fails without Go. */
function build(): SpawnSyncReturns<string> {
  process.once('exit', () => rmSync(program, { force: true }));
  return spawnSync('go', ['build', '-o', program, '.'], { cwd, env, encoding: 'utf8' });
}

/** Gives every record to Porcupine too. Returns its verdicts, and the records on which the judges disagree. */
export function compareJudges({ lives }: Verdict) {
  const input = lives.map(({ evidence }) => `${JSON.stringify(evidence.operations.map(toInput))}\n`).join('');
  built ??= build();
  const { error = built.stderr } = built;
  if (built.status !== 0) return { verdicts: [`left out: ${error}`], disagreements: [] };
  const { stdout } = spawnSync(program, { input, encoding: 'utf8' });
  const verdicts = stdout.split('\n').slice(0, -1);
  if (verdicts.length !== lives.length) throw new Error('Porcupine has crashed');
  const disagreements = lives.filter(
    ({ violations }, i) => verdicts[i] === (violations[0] ? 'Ok' : 'Illegal'),
  );
  return { verdicts, disagreements: disagreements.map(({ name }) => name) };
}

function toInput({ kind, outcome, entry, row, version }: Operation): object {
  const { start, end, sent, guard, record } = entry;
  return {
    kind,
    outcome,
    call: Math.round(start * 1_000),
    // Without a response, it may have happened at any time since, or never.
    return: outcome === 'unknown' ? Number.MAX_SAFE_INTEGER : Math.round(end * 1_000),
    sent: record === 'post' && kind === 'replace' ? { body: '', ...sent } : sent,
    header: guard?.header,
    versions: guard?.versions === '*' ? undefined : guard?.versions,
    version,
    fields: row && fieldsOf(row),
  };
}
