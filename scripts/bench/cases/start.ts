import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { BenchContext, Case, CaseResult, Series } from '../case.ts';
import { pin } from '../cores.ts';
import { dataFile } from '../data.ts';
import { openDatabase } from '../peers/database.ts';
import { tell } from '../progress.ts';
import { bareServer, builtService, type Program, peer, service, start } from '../subject.ts';
import { answersUser } from './grpc.ts';

const ours = 'users-service';
const overGrpc = 'users-service, over gRPC';
const fromSource = 'users-service, from source';
const bare = 'bare node:http';
const root = fileURLToPath(new URL('../../..', import.meta.url));
// A start is short: many of them make one round.
const startsPerRound = 5;
// What is loaded behind the first answer is loaded by then.
const restMs = 2_000;

export const startToFirstAnswer: Case = {
  name: 'start',
  title: 'from the start of the process to the first answer',
  async run({ folder, dataFolder, rounds }: BenchContext): Promise<CaseResult> {
    const file = await dataFile(dataFolder, 1_000);
    const database = ['--database', `sqlite:${file}`];
    const built = builtService(build(folder), database);
    const name = openDatabase(file).getUser(7)?.name ?? '';
    const starters: Starter[] = [
      { name: ours, program: built, path: '/users/7', values: [] },
      { name: overGrpc, program: built, user: name, values: [] },
      { name: fromSource, program: service(database), path: '/users/7', values: [] },
      { name: bare, program: bareServer('{"id":7}'), path: '/users/7', values: [] },
      { name: 'Fastify', program: peer('fastify', file), path: '/users/7', values: [] },
      { name: 'Hono', program: peer('hono', file), path: '/users/7', values: [] },
      { name: 'Express', program: peer('express', file), path: '/users/7', values: [] },
    ];
    // The first start of each fills the caches of files.
    for (const starter of starters) await timeStart(starter, folder);
    for (let i = 0; i < rounds * startsPerRound; i += 1) {
      tell(`start: ${i + 1} of ${rounds * startsPerRound}`);
      for (const starter of starters) starter.values.push(await timeStart(starter, folder));
    }
    return {
      name: this.name,
      title: this.title,
      unit: 'ms',
      better: 'less',
      series: starters.map(({ name, values }): Series => ({ name, values })),
      bars: [{ ours, theirs: bare, atMost: 1.5 }],
      notes: [await atRest(built, folder)],
    };
  },
};

interface Starter {
  readonly name: string;
  readonly program: Program;
  /** What is asked for first over HTTP; absent: GetUser, whose answer has this name. */
  readonly path?: string;
  readonly user?: string;
  readonly values: number[];
}

/** What it has loaded and how large it is once it listens. */
async function atRest(program: Program, folder: string): Promise<string> {
  const counter = new URL('../peers/count-modules.js', import.meta.url).href;
  const counted = { ...program, args: ['--import', counter, ...program.args] };
  const { command, args } = pin('server', counted.command, counted.args);
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let files = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    const { event, ...rest } = JSON.parse(line);
    if (event === 'listening') child.kill('SIGTERM');
    if (event === 'modules') files = rest.files;
  }
  const subject = await start(program, folder);
  await sleep(restMs);
  const mebibytes = subject.residentBytes() / 2 ** 20;
  await subject.stop();
  return `${files} module files loaded when it listens; ${mebibytes.toFixed(0)} MiB resident at rest`;
}

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

async function timeStart({ program, path, user = '' }: Starter, home: string): Promise<number> {
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
      const { http, grpc } = JSON.parse(line);
      if (path === undefined) {
        await answersUser({ grpc }, user);
        return performance.now() - startedAt;
      }
      const [response] = await once(get(http + path), 'response');
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
