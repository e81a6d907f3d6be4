import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Verdict } from './model.ts';

const cwd = fileURLToPath(new URL('porcupine', import.meta.url));
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/local/go/bin` };
const program = join(tmpdir(), `simulate-porcupine-${process.pid}`);
let built: ReturnType<typeof build> | undefined;

/** Compiles the program once; fails without Go. */
function build() {
  process.once('exit', () => rmSync(program, { force: true }));
  return spawnSync('go', ['build', '-o', program, '.'], { cwd, env, encoding: 'utf8' });
}

/** Gives every record to Porcupine too. Returns its verdicts, and the records that it alone rejects. */
export function compareJudges({ lives }: Verdict) {
  built ??= build();
  const { error = built.stderr } = built;
  if (built.status !== 0) return { verdicts: [`left out: ${error}`], disagreements: [] };
  const withoutRows = (name: string, value: unknown) => (name === 'rows' ? undefined : value);
  const input = lives.map(({ evidence }) => `${JSON.stringify(evidence.operations, withoutRows)}\n`).join('');
  const verdicts = spawnSync(program, { input, encoding: 'utf8' }).stdout.split('\n').slice(0, -1);
  if (verdicts.length !== lives.length) throw new Error('Porcupine has crashed');
  // It does not see the feed, so it may accept what the model rejects.
  const disputed = lives.filter(({ violations }, i) => verdicts[i] === 'Illegal' && violations.length === 0);
  return { verdicts, disagreements: disputed.map(({ name }) => name) };
}
