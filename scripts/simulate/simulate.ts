// Runs the service under clients and faults that are drawn from a seed, and judges the history by a model:
//
//   npm run simulate -- [--seed 1] [--minutes M] [--steps 1500] [--store sqlite] [--keep FOLDER]
//   npm run simulate -- --seed 1 --plan        prints what the seed draws
//   npm run simulate -- --judge FILE           judges a history again
//   npm run simulate -- --defects              runs each planted defect over ten seeds
//
// With --minutes, further seeds follow until the time is over. The last lines are a table.
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createProgress } from '../../src/commands/progress.ts';
import { type History, parseHistory } from './history.ts';
import { judge, story } from './model.ts';
import { drawPlan, type Plan, type StorePlan } from './plan.ts';
import { runPlan } from './run.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '0' },
    steps: { type: 'string', default: '1500' },
    store: { type: 'string' },
    keep: { type: 'string' },
    plan: { type: 'boolean', default: false },
    judge: { type: 'string' },
    defect: { type: 'string' },
    defects: { type: 'boolean', default: false },
  },
});
const tallies = {
  operations: new Map<string, number>(),
  faults: new Map<string, number>(),
  anomalies: new Map<string, number>(),
};
const stores = values.store === undefined ? undefined : ([values.store as StorePlan['kind']] as const);
const options = { steps: Number(values.steps), ...(stores && { stores }) };

function count(tally: Map<string, number>, what: string): void {
  tally.set(what, (tally.get(what) ?? 0) + 1);
}

/** Judges a history, prints the stories of what is wrong, and counts. */
function report(history: History, label: string): number {
  const verdict = judge(history);
  for (const { kind, record, walk } of history.entries)
    count(tallies.operations, walk ? `walk ${record}s` : `${kind} ${record}`);
  for (const { fault, skipped } of history.faults)
    count(tallies.faults, skipped === undefined ? fault : `${fault} (skipped: ${skipped})`);
  for (const { rule } of verdict.violations) count(tallies.anomalies, rule);
  for (const violation of verdict.violations.slice(0, 3))
    console.log(`${label} ${story(violation, verdict)}\n`);
  if (verdict.violations.length > 3) console.log(`${label} and ${verdict.violations.length - 3} more`);
  return verdict.violations.length;
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
  const { kind, processes, workers, pooler, standby } = plan.store;
  const shape = `${kind} x${processes}${workers > 1 ? ` with ${workers} workers` : ''}${pooler ? ' behind a pooler' : ''}${standby === 'none' ? '' : `, standby by ${standby}`}`;
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
  const found = report(run, `seed ${seed}:`);
  if (values.keep !== undefined) {
    const lines = [...run.entries, ...run.faults].map((line) => JSON.stringify(line));
    writeFileSync(join(values.keep, `history-${seed}.ndjson`), `${lines.join('\n')}\n`);
  }
  return found;
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
else if (values.judge !== undefined) {
  if (report(parseHistory(readFileSync(values.judge, 'utf8')), values.judge) > 0) process.exitCode = 1;
} else {
  const deadline = performance.now() + Number(values.minutes) * 60_000;
  let seed = Number(values.seed);
  do {
    if ((await runSeed(seed)) > 0) process.exitCode = 1;
    seed += 1;
  } while (performance.now() < deadline);
  printTable();
  console.log(`\nseeds ${values.seed} to ${seed - 1}, ${Math.round(performance.now() / 6_000) / 10} minutes`);
}
