// Runs the service under clients and faults that are drawn from a seed, and judges the history by a model:
//
//   npm run simulate -- [--seed 1] [--steps 1500] [--store sqlite] [--keep FOLDER]
//   npm run simulate -- --seeds 1-200 [--minutes M]     seed after seed, until the time is over
//   npm run simulate -- --seed 1 --plan                 prints what the seed draws
//   npm run simulate -- --judge FILE ...                judges histories again
//   npm run simulate -- --defects [--seeds 1-10]        runs each planted defect, or --defect NAME alone
//
// Without --seeds, --minutes runs further seeds from the first on. The last lines are a table.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createProgress } from '../../src/commands/progress.ts';
import { defects } from './defects.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story, type Verdict } from './model.ts';
import { drawPlan, type Plan, type StoreKind } from './plan.ts';
import { compareJudges } from './porcupine.ts';
import { runPlan } from './run.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string' },
    minutes: { type: 'string', default: 'Infinity' },
    steps: { type: 'string', default: '1500' },
    store: { type: 'string' },
    keep: { type: 'string' },
    plan: { type: 'boolean', default: false },
    judge: { type: 'boolean', default: false },
    defect: { type: 'string' },
    defects: { type: 'boolean', default: false },
  },
});
const { defect, keep } = values;
const stores = values.store === undefined ? {} : { stores: [values.store as StoreKind] as const };
const options = { steps: Number(values.steps), ...stores };
const storiesShown = 3;

/** How often each thing was seen, by group. */
const tallies: Record<string, Map<string, number>> = {};
function count(group: string, what: string, n = 1): void {
  tallies[group] ??= new Map();
  tallies[group].set(what, (tallies[group].get(what) ?? 0) + n);
}

/** Judges a history by both judges, prints the stories of what is wrong, and counts. */
async function report(history: History, label: string): Promise<void> {
  const verdict = judge(history);
  const { violations } = verdict;
  for (const { kind, record, walk } of history.entries)
    count('operations', `${walk ? 'walk' : kind} ${record}`);
  for (const { changes } of history.feed) count('operations', 'followed changes', changes.length);
  for (const { fault, skipped } of history.faults)
    count('faults', skipped ? `${fault} (skipped: ${skipped})` : fault);
  for (const { rule } of violations) count('anomalies', rule);
  for (const violation of violations.slice(0, storiesShown))
    console.log(`${label} ${story(violation, verdict)}\n`);
  if (violations.length > storiesShown) console.log(`${label} and ${violations.length - storiesShown} more`);
  if (violations.length > 0) process.exitCode = 1;
  await compare(verdict, label);
}

/** Gives the records to the second judge, and prints where it disagrees. */
async function compare(verdict: Verdict, label: string): Promise<void> {
  const other = await compareJudges(verdict);
  if (typeof other === 'string') return count('porcupine', other);
  count('porcupine', 'records judged', other.records);
  count('porcupine', 'records without a verdict in time', other.undecided);
  count('porcupine', 'disagreements', other.disagreements.length);
  for (const one of other.disagreements) console.log(`${label} the judges disagree: ${one}`);
  if (other.disagreements.length > 0) process.exitCode = 1;
}

function printTable(): void {
  for (const [group, tally] of Object.entries(tallies)) {
    const rows = [...tally].sort(([a], [b]) => (a < b ? -1 : 1));
    const total = rows.reduce((sum, [, n]) => sum + n, 0);
    console.log(`\n${group.padEnd(52)}${String(total).padStart(10)}`);
    for (const [name, n] of rows) console.log(`  ${name.padEnd(50)}${String(n).padStart(10)}`);
  }
}

function printPlan({ steps, faults, ...rest }: Plan): void {
  console.log(JSON.stringify(rest));
  for (const step of steps) {
    for (const fault of faults.filter(({ at }) => at === step.n)) console.log(JSON.stringify(fault));
    console.log(JSON.stringify(step));
  }
}

async function runSeed(seed: number): Promise<void> {
  const plan = drawPlan(seed, options);
  const shape = Object.entries({ ...plan.store, clients: plan.clients, faults: plan.faults.length });
  const label = `seed ${seed} (${shape.map(([name, value]) => `${name} ${value}`).join(', ')})`;
  const progress = createProgress(process.stderr, label, plan.steps.length);
  try {
    const onProgress = (done: number) => progress.update(done);
    const history = await runPlan(plan, { defect, onProgress, keep });
    progress.finish();
    await report(history, `seed ${seed}:`);
    if (keep === undefined) return;
    const lines = Object.values(history)
      .flat()
      .map((line) => `${JSON.stringify(line)}\n`);
    writeFileSync(join(keep, `history-${seed}.ndjson`), lines.join(''));
  } catch (caught) {
    console.log(`seed ${seed}: ${caught instanceof Error ? caught.stack : caught}`);
    count('anomalies', 'the run could not end');
    process.exitCode = 1;
  }
}

const defectLimitMs = 60_000;
const defectOptions = { steps: 300, stores: ['memory', 'sqlite'] } as const;

/** Runs plans with a defect until the model finds it, and resolves to the rule that is broken. */
async function find(name: string, seed: number): Promise<string | undefined> {
  const startedAt = performance.now();
  for (let attempt = 0; performance.now() - startedAt < defectLimitMs / 2; attempt += 1) {
    let isFound = false;
    const isEnough = (history: History) => {
      isFound = judge(history, false).violations.length > 0;
      return isFound;
    };
    const plan = drawPlan(seed + attempt * 1_000, defectOptions);
    const history = await runPlan(plan, { defect: name, isEnough }).catch(() => undefined);
    if (history === undefined) continue;
    const verdict = judge(history, !isFound);
    await compare(verdict, `${name}, seed ${seed}:`);
    const [violation] = verdict.violations;
    if (violation !== undefined) return violation.rule;
  }
  return undefined;
}

/** Runs a defect over some seeds, and prints on how many it was found in time, and how fast. */
async function proveSharp(name: string, seeds: readonly number[]): Promise<void> {
  let [found, slowest] = [0, 0];
  const rules = new Set<string>();
  for (const seed of seeds) {
    const startedAt = performance.now();
    const rule = await find(name, seed);
    if (rule === undefined) continue;
    const ms = performance.now() - startedAt;
    rules.add(rule);
    slowest = Math.max(slowest, ms);
    if (ms <= defectLimitMs) found += 1;
  }
  const seconds = `${(slowest / 1_000).toFixed(1)} s`;
  console.log(
    `${name.padEnd(24)}${found}/${seeds.length}`.padEnd(32),
    seconds.padEnd(8),
    [...rules].join(', '),
  );
  if (found < seeds.length * 0.9) process.exitCode = 1;
}

const [first = 1, given] = (values.seeds ?? (values.defects ? '1-10' : values.seed)).split('-').map(Number);
const last = given ?? (values.minutes === 'Infinity' ? first : Number.POSITIVE_INFINITY);
if (keep !== undefined) mkdirSync(keep, { recursive: true });
if (values.plan) printPlan(drawPlan(Number(values.seed), options));
else if (values.defects) {
  const seeds = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  for (const name of defect === undefined ? Object.keys(defects) : [defect]) await proveSharp(name, seeds);
} else if (values.judge) {
  for (const file of positionals) await report(parseHistory(readFileSync(file, 'utf8')), file);
} else {
  let minutes = 0;
  for (let seed = first; seed <= last && minutes < Number(values.minutes); seed += 1) {
    await runSeed(seed);
    minutes = performance.now() / 60_000;
    console.log(`seed ${seed} of ${first} to ${last}, ${minutes.toFixed(1)} minutes`);
  }
}
printTable();
