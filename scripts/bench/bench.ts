/**
 * Measures the service beside its peers: the same work, the same data, one core for the server and
 * one for the load, in one run. Prints a table; see --help.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CaseResult } from './case.ts';
import { cases } from './cases.ts';
import { parseOptions } from './options.ts';
import { drawPlot } from './plot.ts';
import { endTelling, tell } from './progress.ts';
import { machine, printCase, summary } from './report.ts';

const options = parseOptions(process.argv.slice(2), cases);
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
const results: CaseResult[] = [];
let failed = false;
try {
  mkdirSync(options.dataFolder, { recursive: true });
  for (const one of options.chosen) {
    tell(`${one.name}: starting`);
    try {
      const result = await one.run({ ...options, folder });
      endTelling();
      results.push(result);
      console.log(printCase(result));
    } catch (error) {
      failed = true;
      endTelling(`${one.name} FAILED: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(summary(results));
if (options.json !== undefined) {
  writeFileSync(options.json, `${JSON.stringify({ machine: machine(), results }, null, 2)}\n`);
}
if (options.plot !== undefined) writeFileSync(options.plot, drawPlot(results));
process.exitCode = failed ? 1 : 0;
