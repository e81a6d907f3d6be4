// Runs the service under clients and faults that are drawn from a seed, and judges the history by a model:
//
//   npm run simulate -- [--seed 1] [--steps 1500] [--store sqlite] [--keep FOLDER]
//   npm run simulate -- --seed 1-200                    seed after seed; with --minutes M until the time is over
//   npm run simulate -- --seed 1 --plan                 prints what the seed draws
//   npm run simulate -- --judge FILE ...                judges histories again
//   npm run simulate -- --defects [--seed 1-10] [NAME]  runs each planted defect, or one of them
//
// With --minutes, `--seed 1` runs all seeds from 1 on. The last lines are a table.
import { mkdirSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { defects } from './defects.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story, type Verdict } from './model.ts';
import { drawPlan, type StoreKind } from './plan.ts';
import { compareJudges } from './porcupine.ts';
import { runPlan } from './run.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string' },
    steps: { type: 'string', default: '1500' },
    store: { type: 'string' },
    keep: { type: 'string' },
    plan: { type: 'boolean', default: false },
    judge: { type: 'boolean', default: false },
    defects: { type: 'boolean', default: false },
  },
});
const { keep } = values;
const stores = values.store === undefined ? undefined : ([values.store as StoreKind] as const);
const storiesShown = 3;
const defectLimitMs = 60_000;
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
  for (const { kind, record, changes = [] } of history.entries) {
    count(`operation: ${kind} ${record}`);
    count('followed changes', changes.length);
  }
  for (const { fault, skipped } of history.faults) {
    count(`fault: ${fault}${skipped ? ` (skipped: ${skipped})` : ''}`);
  }
  for (const { rule } of violations) count(`anomaly: ${rule}`);
  for (const one of violations.slice(0, storiesShown)) fail(`${label} ${story(one, verdict)}\n`);
  if (violations.length > storiesShown) fail(`${label} and ${violations.length - storiesShown} more`);
}

async function runSeed(seed: number): Promise<void> {
  const plan = drawPlan(seed, Number(values.steps), stores);
  const { clients, faults } = plan;
  console.log(`seed ${seed}: ${JSON.stringify({ ...plan.store, clients, faults: faults.length })}`);
  try {
    report(await runPlan(plan, { keep }), `seed ${seed}`);
  } catch (caught) {
    fail(`seed ${seed}: ${caught instanceof Error ? caught.stack : caught}`);
    count('anomaly: the run could not end');
  }
}

/** Runs plans with a defect until the model finds it. Prints on how many seeds it did so in time, and how fast. */
async function proveSharp(defect: string, from: number, to: number): Promise<void> {
  const rules = new Set<string>();
  const times: number[] = [];
  for (let seed = from; seed <= to; seed += 1) {
    const startedAt = performance.now();
    let rule: string | undefined;
    for (let [ms, attempt] = [0, seed]; ms < defectLimitMs && rule === undefined; attempt += 1_000) {
      const plan = drawPlan(attempt, defectSteps, ['memory', 'sqlite']);
      // A defect can also keep a run from its end.
      const history = await runPlan(plan, { defect, keep }).catch(() => undefined);
      rule = history && judgeTwice(history, `${defect} ${attempt}`).violations[0]?.rule;
      ms = performance.now() - startedAt;
      if (rule !== undefined) times.push(ms);
    }
    rules.add(rule ?? 'nothing');
  }
  const [found, seeds] = [times.filter((ms) => ms <= defectLimitMs).length, to - from + 1];
  const slowest = (Math.max(0, ...times) / 1_000).toFixed(1);
  const line = `${defect.padEnd(24)}${found} of ${seeds}, slowest ${slowest} s: ${[...rules].join(', ')}`;
  if (found < seeds * 0.9) fail(line);
  else console.log(line);
}

const [first = 1, given] = (values.seed ?? (values.defects ? '1-10' : '1')).split('-').map(Number);
const last = given ?? (values.minutes === undefined ? first : Number.POSITIVE_INFINITY);
const endsAt = Number(values.minutes ?? Number.POSITIVE_INFINITY) * 60_000;
if (keep !== undefined) mkdirSync(keep, { recursive: true });
if (values.plan) {
  const { steps, faults, ...rest } = drawPlan(first, Number(values.steps), stores);
  console.log(JSON.stringify(rest));
  for (const step of steps) {
    for (const fault of faults.filter(({ at }) => at === step.n)) console.log(JSON.stringify(fault));
    console.log(JSON.stringify(step));
  }
} else if (values.defects) {
  for (const name of positionals[0] ? positionals : Object.keys(defects)) await proveSharp(name, first, last);
} else if (values.judge) {
  for (const file of positionals) report(parseHistory(readFileSync(file, 'utf8')), file);
} else {
  for (let seed = first; seed <= last && performance.now() < endsAt; seed += 1) await runSeed(seed);
}
for (const [what, n] of [...tally].sort()) console.log(what.padEnd(52), String(n).padStart(10));
