// Runs the service under clients and faults that are drawn from a seed, and judges the history by a model:
//
//   npm run simulate -- [--seed 1] [--steps 1500] [--store sqlite] [--keep FOLDER]
//   npm run simulate -- --seeds 1-200 [--minutes M]     seed after seed, until the time is over
//   npm run simulate -- --seed 1 --plan        prints what the seed draws
//   npm run simulate -- --judge FILE ...       judges histories again
//   npm run simulate -- --defects              runs each planted defect over ten seeds
//
// Without --seeds, --minutes runs further seeds from the first on. The last lines are a table.
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createProgress } from '../../src/commands/progress.ts';
import { defects } from './defects.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story } from './model.ts';
import { drawPlan, type Plan, type StorePlan } from './plan.ts';
import { compareJudges } from './porcupine.ts';
import { runPlan } from './run.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string' },
    minutes: { type: 'string' },
    steps: { type: 'string', default: '1500' },
    store: { type: 'string' },
    keep: { type: 'string' },
    plan: { type: 'boolean', default: false },
    judge: { type: 'boolean', default: false },
    defect: { type: 'string' },
    defects: { type: 'boolean', default: false },
  },
});
const tallies = {
  operations: new Map<string, number>(),
  faults: new Map<string, number>(),
  anomalies: new Map<string, number>(),
  porcupine: new Map<string, number>(),
};
const stores = values.store === undefined ? undefined : ([values.store as StorePlan['kind']] as const);
const options = { steps: Number(values.steps), ...(stores && { stores }) };

function count(tally: Map<string, number>, what: string, n = 1): void {
  tally.set(what, (tally.get(what) ?? 0) + n);
}

/** Judges a history by both judges, prints the stories of what is wrong, and counts. */
async function report(history: History, label: string): Promise<number> {
  const verdict = judge(history);
  const { violations } = verdict;
  for (const { kind, record, walk } of history.entries) {
    count(tallies.operations, walk ? `walk ${record}s` : `${kind} ${record}`);
  }
  for (const { fault, skipped } of history.faults) {
    count(tallies.faults, skipped === undefined ? fault : `${fault} (skipped: ${skipped})`);
  }
  for (const { changes } of history.feed) count(tallies.operations, 'followed changes', changes.length);
  for (const { rule } of violations) count(tallies.anomalies, rule);
  for (const violation of violations.slice(0, 3)) console.log(`${label} ${story(violation, verdict)}\n`);
  if (violations.length > 3) console.log(`${label} and ${violations.length - 3} more`);
  const other = await compareJudges(verdict);
  if (typeof other === 'string') {
    count(tallies.porcupine, other);
    return violations.length;
  }
  const { records, undecided, disagreements } = other;
  count(tallies.porcupine, 'records judged', records);
  count(tallies.porcupine, 'records without a verdict in time', undecided);
  count(tallies.porcupine, 'disagreements', disagreements.length);
  for (const disagreement of disagreements) console.log(`${label} the judges disagree: ${disagreement}`);
  return violations.length + disagreements.length;
}

function printPlan({ steps, faults, ...rest }: Plan): void {
  console.log(JSON.stringify(rest));
  for (const step of steps) {
    for (const fault of faults.filter(({ at }) => at === step.n)) console.log(JSON.stringify(fault));
    console.log(JSON.stringify(step));
  }
}

async function runSeed(seed: number): Promise<number> {
  const plan = drawPlan(seed, options);
  const { kind, processes, workers, pooler, standby, standbyReads } = plan.store;
  const shape = `${kind} x${processes}${workers > 1 ? ` with ${workers} workers` : ''}${pooler ? ' behind a pooler' : ''}${standby === 'none' ? '' : `, standby by ${standby}${standbyReads ? ' that is read' : ''}`}`;
  const label = `seed ${seed} (${shape}, ${plan.clients} clients, ${plan.faults.length} faults)`;
  const progress = createProgress(process.stderr, label, plan.steps.length);
  let run: History;
  try {
    const onProgress = (done: number) => progress.update(done);
    run = await runPlan(plan, { defect: values.defect, onProgress, keep: values.keep });
  } catch (caught) {
    console.log(`seed ${seed}: ${caught instanceof Error ? caught.stack : caught}`);
    count(tallies.anomalies, 'the run could not end');
    return 1;
  }
  progress.finish();
  const found = await report(run, `seed ${seed}:`);
  if (values.keep !== undefined) {
    const lines = [...run.entries, ...run.faults, ...run.feed].map((line) => JSON.stringify(line));
    writeFileSync(join(values.keep, `history-${seed}.ndjson`), `${lines.join('\n')}\n`);
  }
  return found;
}

const defectSeeds = 10;
const defectLimitMs = 60_000;
const defectSteps = 300;

/** Runs each defect over ten seeds until it is found, and prints how often and how fast it was. */
async function proveSharp(): Promise<void> {
  const first = Number(values.seed);
  console.log(`${'defect'.padEnd(24)}found  slowest  Porcupine disagrees  first rule`);
  for (const defect of values.defect === undefined ? Object.keys(defects) : [values.defect]) {
    let [found, slowest, disagreeing] = [0, 0, 0];
    const rules = new Set<string>();
    for (let seed = first; seed < first + defectSeeds; seed += 1) {
      const startedAt = performance.now();
      for (let attempt = 0; performance.now() - startedAt < defectLimitMs / 2; attempt += 1) {
        const plan = drawPlan(seed + attempt * 1_000, { steps: defectSteps, stores: ['memory', 'sqlite'] });
        let isOver = true;
        const isEnough = (history: History) => {
          isOver = judge(history, false).violations.length === 0;
          return !isOver;
        };
        const run = await runPlan(plan, { defect, isEnough }).catch(() => undefined);
        if (run === undefined) continue;
        const verdict = judge(run, isOver);
        const ms = performance.now() - startedAt;
        const other = await compareJudges(verdict);
        if (typeof other !== 'string') {
          disagreeing += other.disagreements.length;
          for (const disagreement of other.disagreements) console.log(`seed ${seed}: ${disagreement}`);
        }
        const [violation] = verdict.violations;
        if (violation === undefined) continue;
        if (ms <= defectLimitMs) found += 1;
        slowest = Math.max(slowest, ms);
        rules.add(violation.rule);
        break;
      }
    }
    const times = `${String(found).padStart(3)}/${defectSeeds}  ${(slowest / 1_000).toFixed(1).padStart(5)} s`;
    console.log(
      `${defect.padEnd(24)}${times}  ${String(disagreeing).padStart(19)}  ${[...rules].join(', ')}`,
    );
    if (found < defectSeeds - 1 || disagreeing > 0) process.exitCode = 1;
  }
}

function printTable(): void {
  for (const [what, tally] of Object.entries(tallies)) {
    const rows = [...tally].sort(([a], [b]) => (a < b ? -1 : 1));
    const total = rows.reduce((sum, [, n]) => sum + n, 0);
    console.log(`\n${what.padEnd(52)}${String(total).padStart(10)}`);
    for (const [name, n] of rows) console.log(`  ${name.padEnd(50)}${String(n).padStart(10)}`);
  }
}

if (values.keep !== undefined) await mkdir(values.keep, { recursive: true });
if (values.plan) printPlan(drawPlan(Number(values.seed), options));
else if (values.defects) await proveSharp();
else if (values.judge) {
  for (const file of positionals) {
    if ((await report(parseHistory(readFileSync(file, 'utf8')), file)) > 0) process.exitCode = 1;
  }
  printTable();
} else {
  const [first = 1, last = values.minutes === undefined ? first : Number.POSITIVE_INFINITY] = (
    values.seeds?.split('-') ?? [values.seed]
  ).map(Number);
  const deadline = Number(values.minutes ?? Number.POSITIVE_INFINITY) * 60_000;
  let seed = first;
  for (; seed <= last && (seed === first || performance.now() < deadline); seed += 1) {
    if ((await runSeed(seed)) > 0) process.exitCode = 1;
    const minutes = (performance.now() / 60_000).toFixed(1);
    console.log(
      `${seed - first + 1} seeds in ${minutes} minutes, the last one ${seed}${last < Number.POSITIVE_INFINITY ? ` of ${last}` : ''}`,
    );
  }
  printTable();
}
