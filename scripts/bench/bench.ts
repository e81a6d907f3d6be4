/**
 * Compares the service with its peers: the same work and data, in short turns in random order, with one core
 * for the server and one for the load. Prints tables. See --help.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWith, readArguments } from '../harness/arguments.ts';
import { cases } from './cases.ts';
import { commandExists } from './cores.ts';
import { publish } from './figures.ts';
import { endProgress } from './progress.ts';
import { isSlower, measureAgainst } from './quick.ts';
import { machine, printCase, summary } from './report.ts';
import type { Case, CaseResult } from './result.ts';

const usage = `usage: npm run bench -- [options]

  --only A,B          the cases to run (default: all but the long ones; "all" for these, too)
  --rounds N          how many turns each contestant gets (30)
  --max-users N       how far the growth case goes (10000000)
  --soak-seconds N    how long the soak case lasts (600)
  --data DIR          where data files are kept from run to run (in the folder of temporary files)
  --json FILE         write all values measured
  --publish A,B       measure nothing: write the tables of README.md and its picture from such files
  --quick             compare this checkout with a commit in two minutes; exit with 1 if a request
                      costs over 5 % more CPU time, by the whole 95 % interval
  --against COMMIT    the commit to compare with (HEAD^)

cases:
${cases.map(({ name, title, long }) => `  ${name.padEnd(18)}  ${title}${long ? ' (long)' : ''}`).join('\n')}`;

const defaults = {
  only: '',
  rounds: 30,
  'max-users': 10_000_000,
  'soak-seconds': 600,
  data: join(tmpdir(), 'users-service-bench'),
  json: '',
  publish: '',
  quick: false,
  against: 'HEAD^',
};
const options = readArguments(defaults, { help: () => usage });
if (options.publish !== '') {
  publish(options.publish.split(','));
  process.exit(0);
}
if (!commandExists('h2load')) endWith('h2load sends the load: install nghttp2');

const context = {
  folder: mkdtempSync(join(tmpdir(), 'bench-')),
  dataFolder: options.data,
  rounds: options.rounds,
  maxUsers: options['max-users'],
  soakSeconds: options['soak-seconds'],
};
const results: CaseResult[] = [];
let failed = false;
try {
  mkdirSync(context.dataFolder, { recursive: true });
  if (options.quick) {
    await runCase(measureAgainst(options.against));
    const slower = results.filter(isSlower).map(({ title }) => title);
    failed ||= slower.length > 0;
    console.log(`costs over 5 % more CPU time than ${options.against}: ${slower.join('; ') || 'nothing'}`);
  } else {
    for (const one of chosenCases()) await runCase(one);
    console.log(summary(results));
  }
} finally {
  rmSync(context.folder, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;

/** A case that fails does not stop the other cases. */
async function runCase(one: Case): Promise<void> {
  try {
    for (const result of await one.run(context)) {
      results.push(result);
      // After each case, so that a run that is broken off loses only the case at hand.
      if (options.json !== '') {
        writeFileSync(options.json, `${JSON.stringify({ machine: machine(), results }, null, 1)}\n`);
      }
      endProgress();
      console.log(printCase(result));
    }
  } catch (error) {
    failed = true;
    endProgress();
    console.error(`${one.name} FAILED: ${error instanceof Error ? error.stack : error}`);
  }
}

function chosenCases(): readonly Case[] {
  if (options.only === '') return cases.filter((one) => one.long !== true);
  if (options.only === 'all') return cases;
  return options.only.split(',').map((name) => {
    const found = cases.find((one) => one.name === name);
    if (found === undefined) endWith(`--only must name cases, and "${name}" is not one`);
    return found;
  });
}
