// Starts the service as a seed draws it, with clients and faults, and judges what it did by a model:
//
//   npm run simulate -- [--seed 1 | --seed 1-200] [--minutes M] [--steps 1500] [--keep FOLDER]
//   npm run simulate -- --seed 1 --plan              prints what the seed draws
//   npm run simulate -- --judge FILE...              judges histories that were kept
//   npm run simulate -- --defects [NAME] [--seed 1-10]    plants defects, which the model must find
//
// README.md beside this file explains the model and its output.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { endWith, readArguments } from '../harness/arguments.ts';
import { defects } from './defects.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story } from './model.ts';
import { drawPlan } from './plan.ts';
import { runPlan } from './run.ts';

const { positionals, steps, minutes, ...values } = readArguments(
  { seed: '', minutes: 0, steps: 1_500, keep: '', plan: false, judge: false, defects: false },
  { allowPositionals: true },
);
const keep = values.keep || undefined;
const porcupine = new URL('porcupine', import.meta.url);
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/local/go/bin` };
const storiesShown = 3;
const defectLimitSeconds = 60;
const defectSteps = 120;

/** How often each thing was seen. */
const tally = new Map<string, number>();
function count(what: string, n = 1): void {
  tally.set(what, (tally.get(what) ?? 0) + n);
}

function fail(message: string): void {
  console.log(message);
  process.exitCode = 1;
}

/** Judges a history, and gives every record to Porcupine too. */
function judgeTwice(history: History, label: string) {
  const { lives, violations } = judge(history);
  const withoutRows = (name: string, value: unknown) => (name === 'rows' ? undefined : value);
  const input = lives.map(({ operations }) => `${JSON.stringify(operations, withoutRows)}\n`).join('');
  const go = spawnSync('go', ['run', '.'], { cwd: porcupine, env, input, encoding: 'utf8' });
  const verdicts =
    go.pid === 0 ? ['left out, since Go is not installed'] : go.stdout.split('\n').slice(0, -1);
  if (go.pid !== 0 && verdicts.length !== lives.length) throw new Error(`Porcupine has failed: ${go.stderr}`);
  for (const one of verdicts) count(`Porcupine: ${one}`);
  for (const [i, life] of lives.entries()) {
    // It does not see the feed, so it may accept what the model rejects.
    if (verdicts[i] !== 'Illegal' || life.violations.length > 0) continue;
    fail(`${label}: only Porcupine rejects ${life.name}`);
    count('Porcupine: disagreements');
  }
  return violations;
}

/** Judges a history, prints the stories of what is wrong, and counts. */
function report(history: History, label: string): void {
  const violations = judgeTwice(history, label);
  for (const { kind, record, changes = [] } of history.entries) {
    count(`operation: ${kind} ${record}`);
    count('followed changes', changes.length);
  }
  for (const { fault, skipped } of history.faults) {
    count(`fault: ${fault}${skipped ? ` (skipped: ${skipped})` : ''}`);
  }
  for (const { rule } of violations) count(`anomaly: ${rule}`);
  for (const one of violations.slice(0, storiesShown)) fail(`${label} ${story(one)}\n`);
  if (violations.length > storiesShown) fail(`${label} and ${violations.length - storiesShown} more`);
}

async function runSeed(seed: number): Promise<void> {
  const plan = drawPlan(seed, steps);
  const { clients, faults } = plan;
  console.log(`seed ${seed}: ${JSON.stringify({ ...plan.store, clients, faults: faults.length })}`);
  try {
    report(await runPlan(plan, keep), `seed ${seed}`);
  } catch (caught) {
    fail(`seed ${seed}: ${caught instanceof Error ? caught.stack : caught}`);
    count('anomaly: the run could not end');
  }
}

/** Runs plans with a defect until the model finds it. */
async function proveSharp(defect: string, seed: number): Promise<void> {
  const startedAt = performance.now();
  const seconds = () => (performance.now() - startedAt) / 1_000;
  let rule: string | undefined;
  for (let attempt = seed; rule === undefined && seconds() < defectLimitSeconds; attempt += 1_000) {
    const plan = drawPlan(attempt, defectSteps, ['memory', 'sqlite']);
    // A defect can also keep a run from its end.
    const history = await runPlan(plan, keep, defect).catch(() => undefined);
    rule = history && judgeTwice(history, `${defect} ${attempt}`)[0]?.rule;
  }
  console.log(`${defect}, seed ${seed}: ${rule ?? 'not found'} after ${seconds().toFixed(1)} s`);
  if (rule === undefined) process.exitCode = 1;
  count(`defect: ${defect}: ${rule ?? 'not found'}`);
}

const seeds = values.seed || (values.defects ? '1-10' : '1');
if (!/^\d+(-\d+)?$/.test(seeds)) endWith(`--seed must be like 7 or 1-200, not "${seeds}"`);
const [first = 1, given] = seeds.split('-').map(Number);
const last = given ?? (minutes === 0 ? first : Number.POSITIVE_INFINITY);
const endsAt = (minutes || Number.POSITIVE_INFINITY) * 60_000;
if (keep !== undefined) mkdirSync(keep, { recursive: true });
if (values.plan) {
  const { steps: drawn, faults, ...rest } = drawPlan(first, steps);
  const lines = drawn.flatMap((step) => [...faults.filter(({ at }) => at === step.n), step]);
  for (const line of [rest, ...lines]) console.log(JSON.stringify(line));
} else if (values.judge) {
  if (positionals.length === 0) endWith('name the histories to judge');
  for (const file of positionals) report(parseHistory(readFileSync(file, 'utf8')), file);
} else {
  const names = positionals[0] ? positionals : Object.keys(defects);
  const unknown = names.filter((name) => !Object.hasOwn(defects, name));
  if (unknown.length > 0) endWith(`there is no defect ${unknown.join(', ')}`);
  for (let seed = first; seed <= last && performance.now() < endsAt; seed += 1) {
    if (values.defects) for (const name of names) await proveSharp(name, seed);
    else await runSeed(seed);
  }
}
for (const [what, n] of [...tally].sort()) console.log(what.padEnd(52), String(n).padStart(10));
