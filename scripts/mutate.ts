// Breaks the source in many small ways, and shows which of them no test notices:
//
//   npm run mutate -- [--count 300] [--seed 1] [--under src/http] [--at-once 2] [--patience 60] [--log FOLDER] [--again]
//
// Each mutant is made in a copy of the checkout. First, every test file runs once, to note which lines it executes.
// A mutant runs the files that execute its line, and then the others of the folders that judge it, until one fails.
// Quick files come first, and so do files that execute much of the changed file or have killed other mutants of it.
// After `--patience` seconds of test files, a mutant counts as living; without it, all files run. The compiler is
// the last judge.
//
// The log folder keeps the notes and all verdicts, so another run goes on where one has ended. `--again` judges the
// mutants that lived once more. With TEST_DATABASE_URL, all tests share one PostgreSQL, which saves much time.
//
// A busy machine fails tests too. So a test kills a mutant only if it passes without the mutant (after a timeout:
// once more), and fails with it either twice or by an assertion within a second.
import { execFile } from 'node:child_process';
import { appendFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { Random } from '../src/conformance/random.ts';
import { changed, type Mutant, mutantsOf } from './mutate/mutants.ts';
import { hashOf, judgingFolders, kills, type Reach, reachOf, testsFor } from './mutate/tests.ts';

const { values: given } = parseArgs({
  options: {
    count: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    under: { type: 'string', default: 'src/{domain,http,rest,grpc,storage}' },
    'at-once': { type: 'string', default: '2' },
    log: { type: 'string', default: join(tmpdir(), 'users-service-mutants') },
    again: { type: 'boolean', default: false },
    patience: { type: 'string', default: 'Infinity' },
  },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = await mkdtemp(join(tmpdir(), 'mutants-'));

/** The fate of a mutant. */
interface Verdict extends Omit<Mutant, 'source' | 'start'> {
  /** The test file that noticed it, or the compiler. Absent: it lives. */
  readonly by?: string | undefined;
  readonly seconds: number;
}

function readLog<Entry>(name: string): Entry[] {
  const path = join(given.log, name);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line));
}

const writeLog = (name: string, entry: unknown) =>
  appendFileSync(join(given.log, name), `${JSON.stringify(entry)}\n`);

mkdirSync(given.log, { recursive: true });
const reach = new Map(readLog<Reach>('reach').map((one) => [one.test, one]));
const verdicts = new Map(readLog<Verdict>('verdicts').map((one) => [one.key, one]));

/** Runs the test files that are new or have changed, to note what they execute. */
async function record(cwd: string, tests: string[]): Promise<void> {
  for (let test = tests.shift(); test !== undefined; test = tests.shift()) {
    if (reach.get(test)?.hash === hashOf(join(cwd, test))) continue;
    reach.delete(test);
    const found = await reachOf(test, cwd);
    console.log(found === undefined ? `left out, since it fails: ${test}` : `${test} takes ${found.ms} ms`);
    if (found === undefined) continue;
    reach.set(test, found);
    writeLog('reach', found);
  }
}

// A mutant such as `if (true) return` is no error of types.
const flags = ['--noEmit', '--allowUnreachableCode', 'true', '--noUnusedLocals', 'false'];

/** Resolves to what notices a mutant, if anything does. */
async function killer(mutant: Mutant, cwd: string): Promise<string | undefined> {
  const { file, source } = mutant;
  const write = (isMutant: boolean) =>
    writeFileSync(join(cwd, file), (isMutant && changed(mutant)) || source);
  const sameFile = [...verdicts.values()].filter((verdict) => verdict.file === file);
  const best = new Set(sameFile.map(({ by }) => by ?? ''));
  try {
    let left = 1000 * Number(given.patience);
    for (const one of testsFor(mutant, [...reach.values()], best)) {
      if (left < 0) break;
      left -= one.ms;
      if (await kills(one, cwd, write, join(scratch, 'cache'))) return one.test;
    }
    write(true);
    const compiles = await promisify(execFile)('tsc', flags, { cwd }).catch(() => undefined);
    return compiles === undefined ? 'the compiler' : undefined;
  } finally {
    write(false);
  }
}

function finish({ source, start, ...mutant }: Mutant, by: string | undefined, seconds: number): void {
  const verdict = { ...mutant, by, seconds };
  verdicts.set(mutant.key, verdict);
  writeLog('verdicts', verdict);
  print(verdict);
}

function print({ file, line, from, to, by, seconds }: Verdict): void {
  const change = `${from.replace(/\s+/g, ' ').slice(0, 60)} -> ${to || '(nothing)'}`;
  console.log(`${by === undefined ? 'LIVES' : `killed by ${by}`} in ${seconds} s: ${file}:${line} ${change}`);
}

const all = globSync(`${given.under}/**/*.ts`, { cwd: root }).sort();
const mutants = all.flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')));
const isLiving = ({ key }: { key: string }) => verdicts.has(key) && verdicts.get(key)?.by === undefined;
const drawn = given.again ? mutants.filter(isLiving) : [];
const random = new Random(Number(given.seed));
const rest = [...mutants];
let missing = given.again ? 0 : Number(given.count) - verdicts.size;
while (missing > 0 && rest.length > 0) {
  const [mutant] = rest.splice(random.below(rest.length), 1);
  if (mutant === undefined || verdicts.has(mutant.key) || changed(mutant) === undefined) continue;
  drawn.push(mutant);
  missing -= 1;
}

const folders = judgingFolders.map((folder) => `test/${folder}/*.test.ts`);
const tests = globSync(folders, { cwd: root }).sort();
for (const test of reach.keys()) if (!tests.includes(test)) reach.delete(test);
async function work(): Promise<void> {
  const cwd = await mkdtemp(join(scratch, 'copy-'));
  await cp(root, cwd, { recursive: true, filter: (path) => !/\/(?:node_modules|\.git|dist)$/.test(path) });
  await symlink(join(root, 'node_modules'), join(cwd, 'node_modules'));
  await record(cwd, tests);
  for (let mutant = drawn.shift(); mutant !== undefined; mutant = drawn.shift()) {
    const start = performance.now();
    const by = await killer(mutant, cwd);
    finish(mutant, by, Math.round((performance.now() - start) / 100) / 10);
  }
}
if (drawn.length > 0) await Promise.all(Array.from({ length: Number(given['at-once']) }, work));
await rm(scratch, { recursive: true });
const living = mutants.filter(isLiving);
for (const { key } of living) print(verdicts.get(key) as Verdict);
const killed = [...verdicts.values()].filter(({ by }) => by !== undefined).length;
const share = ((100 * living.length) / (killed + living.length)).toFixed(1);
console.log(`${living.length} of ${killed + living.length} mutants live (${share} %)`);
