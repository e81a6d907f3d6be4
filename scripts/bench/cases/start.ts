import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { BenchContext, Case, CaseResult, Series } from '../case.ts';
import { pin } from '../cores.ts';
import { dataFile } from '../data.ts';
import { tell } from '../progress.ts';
import { bareServer, builtService, type Program, peer, service } from '../subject.ts';

const ours = 'users-service';
const fromSource = 'users-service, from source';
const bare = 'bare node:http';
const root = fileURLToPath(new URL('../../..', import.meta.url));
// A start is short: many of them make one round.
const startsPerRound = 5;

export const startToFirstAnswer: Case = {
  name: 'start',
  title: 'from the start of the process to the first answer',
  async run({ folder, dataFolder, rounds }: BenchContext): Promise<CaseResult> {
    const file = await dataFile(dataFolder, 1_000);
    const database = ['--database', `sqlite:${file}`];
    const starters: { name: string; program: Program; path: string; values: number[] }[] = [
      { name: ours, program: builtService(build(folder), database), path: '/users/7', values: [] },
      { name: fromSource, program: service(database), path: '/users/7', values: [] },
      { name: bare, program: bareServer('{"id":7}'), path: '/users/7', values: [] },
      { name: 'Fastify', program: peer('fastify', file), path: '/users/7', values: [] },
      { name: 'Hono', program: peer('hono', file), path: '/users/7', values: [] },
      { name: 'Express', program: peer('express', file), path: '/users/7', values: [] },
    ];
    // The first start of each fills the caches of files.
    for (const { program, path } of starters) await timeStart(program, path, folder);
    for (let i = 0; i < rounds * startsPerRound; i += 1) {
      tell(`start: ${i + 1} of ${rounds * startsPerRound}`);
      for (const { program, path, values } of starters) values.push(await timeStart(program, path, folder));
    }
    return {
      name: this.name,
      title: this.title,
      unit: 'ms',
      better: 'less',
      series: starters.map(({ name, values }): Series => ({ name, values })),
      bars: [{ ours, theirs: bare, atMost: 1.5 }],
    };
  },
};

/** Compiles the package as `npm pack` would, and puts beside it what it needs. */
function build(folder: string): string {
  const place = join(folder, 'package');
  mkdirSync(place);
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  execFileSync(process.execPath, [
    compiler,
    '-p',
    join(root, 'tsconfig.build.json'),
    '--outDir',
    join(place, 'dist'),
  ]);
  for (const name of ['node_modules', 'generated', 'public', 'proto', 'package.json']) {
    symlinkSync(join(root, name), join(place, name));
  }
  return place;
}

async function timeStart(program: Program, path: string, home: string): Promise<number> {
  const { command, args } = pin('server', program.command, program.args);
  const startedAt = performance.now();
  const child = spawn(command, args, {
    // Where the service keeps what it has compiled.
    env: { PATH: process.env['PATH'], HOME: home, ...program.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.includes('"listening"')) continue;
      const [response] = await once(get(JSON.parse(line).http + path), 'response');
      const elapsed = performance.now() - startedAt;
      if (response.statusCode !== 200) throw new Error(`${command} answered ${response.statusCode}`);
      response.resume();
      return elapsed;
    }
    throw new Error(`${args.join(' ')} ended before it listened`);
  } finally {
    // In order, so that what was compiled is kept.
    child.kill('SIGTERM');
    await exited;
  }
}
