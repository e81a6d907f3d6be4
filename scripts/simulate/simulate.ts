// Runs the service under clients and faults that are drawn from a seed, and judges the history by a model:
//
//   npm run simulate -- [--seed 1] [--steps 1500] [--store sqlite] [--keep FOLDER]
//   npm run simulate -- --seeds 1-200 [--minutes M]     seed after seed, until the time is over
//   npm run simulate -- --seed 1 --plan                 prints what the seed draws
//   npm run simulate -- --judge FILE ...                judges histories again
//   npm run simulate -- --defects [--seeds 1-10]        runs each planted defect, or --defect NAME alone
//
// Without --seeds, --minutes runs further seeds from the first on. The last lines are a table.
import { mkdirSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { createProgress } from '../../src/commands/progress.ts';
import { defects } from './defects.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story, type Verdict } from './model.ts';
import { drawPlan, type StoreKind } from './plan.ts';
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
const steps = Number(values.steps);
const stores = values.store === undefined ? undefined : ([values.store as StoreKind] as const);
const storiesShown = 3;
const defectLimitMs = 60_000;
const defectSteps = 300;

/** How often each thing was seen. */
const tally = new Map<string, number>();
function count(what: string, n = 1): void {
  tally.set(what, (tally.get(what) ?? 0) + n);
}

function fail(message: string): void {
  console.log(message);
  process.exitCode = 1;
}

/** Judges a history by both judges. */
function judgeTwice(history: History, label: string): Verdict {
  const verdict = judge(history);
  const { verdicts, disagreements } = compareJudges(verdict);
  for (const one of verdicts) count(`Porcupine: ${one}`);
  for (const one of disagreements) fail(`${label}: the judges disagree on ${one}`);
  count('Porcupine: disagreements', disagreements.length);
  return verdict;
}

/** Judges a history, prints the stories of what is wrong, and counts. */
function report(history: History, label: string): void {
  const verdict = judgeTwice(history, label);
  const { violations } = verdict;
  for (const { kind, record, walk } of history.entries) count(`operation: ${walk ? 'walk' : kind} ${record}`);
  for (const { changes } of history.feed) count('followed changes', changes.length);
  for (const { fault, skipped } of history.faults)
    count(`fault: ${fault}${skipped ? ` (skipped: ${skipped})` : ''}`);
  for (const { rule } of violations) count(`anomaly: ${rule}`);
  for (const one of violations.slice(0, storiesShown)) fail(`${label} ${story(one, verdict)}\n`);
  if (violations.length > storiesShown) fail(`${label} and ${violations.length - storiesShown} more`);
}

async function runSeed(seed: number): Promise<void> {
  const plan = drawPlan(seed, steps, stores);
  const shape = { ...plan.store, clients: plan.clients, faults: plan.faults.length };
  console.log(`seed ${seed}: ${JSON.stringify(shape)}`);
  const progress = createProgress(process.stderr, `seed ${seed}`, steps);
  try {
    const history = await runPlan(plan, { keep, onProgress: (done) => progress.update(done) });
    progress.finish();
    report(history, `seed ${seed}`);
  } catch (caught) {
    fail(`seed ${seed}: ${caught instanceof Error ? caught.stack : caught}`);
    count('anomaly: the run could not end');
  }
}

/** Runs plans with a defect until the model finds it. Prints on how many seeds it did so in time, and how fast. */
async function proveSharp(name: string, seeds: readonly number[]): Promise<void> {
  const rules = new Set<string>();
  const times: number[] = [];
  // During a run, followers lag behind.
  const isEnough = (history: History) => judge({ ...history, feed: [] }).violations.length > 0;
  for (const seed of seeds) {
    const startedAt = performance.now();
    for (let [ms, rule, attempt] = [0, '', 0]; ms < defectLimitMs && rule === ''; attempt += 1) {
      const plan = drawPlan(seed + attempt * 1_000, defectSteps, ['memory', 'sqlite']);
      // A defect can also keep a run from its end.
      const history = await runPlan(plan, { defect: name, keep, isEnough }).catch(() => undefined);
      const verdict = history && judgeTwice(history, `${name} ${plan.seed}`);
      rule = verdict?.violations[0]?.rule ?? '';
      ms = performance.now() - startedAt;
      if (rule !== '') times.push(ms);
      if (rule !== '') rules.add(rule);
    }
  }
  const found = times.filter((ms) => ms <= defectLimitMs).length;
  const slowest = (Math.max(0, ...times) / 1_000).toFixed(1);
  const line = `${name.padEnd(24)}${found} of ${seeds.length}, slowest ${slowest} s: ${[...rules].join(', ')}`;
  if (found < seeds.length * 0.9) fail(line);
  else console.log(line);
}

const [first = 1, given] = (values.seeds ?? (values.defects ? '1-10' : values.seed)).split('-').map(Number);
const last = given ?? (values.minutes === 'Infinity' ? first : Number.POSITIVE_INFINITY);
if (keep !== undefined) mkdirSync(keep, { recursive: true });
if (values.plan) {
  const { steps: planned, faults, ...rest } = drawPlan(first, steps, stores);
  console.log(JSON.stringify(rest));
  for (const step of planned) {
    for (const fault of faults.filter(({ at }) => at === step.n)) console.log(JSON.stringify(fault));
    console.log(JSON.stringify(step));
  }
} else if (values.defects) {
  const seeds = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  for (const name of defect === undefined ? Object.keys(defects) : [defect]) await proveSharp(name, seeds);
} else if (values.judge) {
  for (const file of positionals) report(parseHistory(readFileSync(file, 'utf8')), file);
} else {
  let minutes = 0;
  for (let seed = first; seed <= last && minutes < Number(values.minutes); seed += 1) {
    await runSeed(seed);
    minutes = performance.now() / 60_000;
    console.log(`seed ${seed} of ${first} to ${last}, ${minutes.toFixed(1)} minutes`);
  }
}
for (const [what, n] of [...tally].sort()) console.log(what.padEnd(52), String(n).padStart(10));
