import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { BenchContext, Case } from './case.ts';

export interface BenchOptions extends Omit<BenchContext, 'folder'> {
  readonly chosen: readonly Case[];
  readonly json: string | undefined;
  readonly plot: string | undefined;
}

const usage = (cases: readonly Case[]) => `usage: npm run bench -- [options]

  --only A,B          the cases to run (default: all but the long ones; "all" for these, too)
  --rounds N          how often each contestant is measured (5)
  --seconds N         how long each time (5)
  --max-users N       how far the growth cases go (10000000)
  --memory-seconds N  how long the memory case lasts (600)
  --data DIR          where data files are kept from run to run (in the folder of temporary files)
  --json FILE         every value measured, for machines
  --plot FILE         a picture of the ratios (SVG)

cases:
${cases.map((one) => `  ${one.name.padEnd(18)}  ${one.title}${one.long ? ' (long)' : ''}`).join('\n')}`;

export function parseOptions(args: string[], cases: readonly Case[]): BenchOptions {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    options: {
      only: text,
      rounds: { ...text, default: '5' },
      seconds: { ...text, default: '5' },
      'max-users': { ...text, default: '10000000' },
      'memory-seconds': { ...text, default: '600' },
      data: { ...text, default: join(tmpdir(), 'users-service-bench') },
      json: text,
      plot: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    console.log(usage(cases));
    process.exit(0);
  }
  return {
    chosen: choose(values.only, cases),
    rounds: count('rounds', values.rounds),
    seconds: count('seconds', values.seconds),
    maxUsers: count('max-users', values['max-users']),
    memorySeconds: count('memory-seconds', values['memory-seconds']),
    dataFolder: values.data,
    json: values.json,
    plot: values.plot,
  };
}

function choose(only: string | undefined, cases: readonly Case[]): readonly Case[] {
  if (only === undefined) return cases.filter((one) => one.long !== true);
  if (only === 'all') return cases;
  return only.split(',').map((name) => {
    const found = cases.find((one) => one.name === name);
    if (found === undefined) throw new Error(`--only must name cases, and "${name}" is none; see --help`);
    return found;
  });
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} must be a whole number from 1`);
  return value;
}
