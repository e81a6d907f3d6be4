import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { shuffle } from '../../harness/statistics.ts';
import { pin } from '../cores.ts';
import { dataFile } from '../data.ts';
import { ours, peerOver } from '../peers.ts';
import { report } from '../progress.ts';
import type { Case } from '../result.ts';
import { cpuTimeOf, type Program, peer, root, service } from '../subject.ts';

// As `npm start` does.
const preload = `--require=${join(root, 'src', 'require-node.cjs')}`;
const bareScript = 'a script with node:http and node:sqlite';

export const startToFirstAnswer: Case = {
  name: 'start',
  title: 'from the start of the process to the first response',
  async run({ folder, dataFolder, rounds }) {
    const file = await dataFile(dataFolder, 1_000);
    const fromSource = service(['--database', `sqlite:${file}`]);
    const [, ...args] = fromSource.args;
    const built = { ...fromSource, args: [join(build(folder), 'dist', 'main.js'), ...args] };
    const starters = [
      { name: ours, program: built },
      { name: `${ours}, from source`, program: { ...fromSource, args: [preload, ...fromSource.args] } },
      { name: bareScript, program: peer('node.js', file) },
      ...(['Fastify', 'Hono', 'Express', 'NestJS', 'Go'] as const).flatMap((name) => {
        return peerOver(name, file, folder, true);
      }),
    ].map((starter) => ({ ...starter, ms: [] as number[], cpuMs: [] as number[] }));
    // The first start of each program fills the caches.
    for (const { program } of starters) await timeStart(program, folder);
    for (let round = 0; round < rounds; round += 1) {
      report(`start: round ${round + 1} of ${rounds}`);
      for (const { program, ms, cpuMs } of shuffle(starters)) {
        const start = await timeStart(program, folder);
        ms.push(start.ms);
        cpuMs.push(start.cpuMs);
      }
    }
    return [
      {
        name: this.name,
        title: this.title,
        compare: ['ms', 'CPU ms'],
        series: starters.map(({ name, ms, cpuMs }) => ({ name, values: { ms, 'CPU ms': cpuMs } })),
        bars: [{ theirs: bareScript, atMost: 1.4 }],
      },
    ];
  },
};

/** Compiles the package as `npm pack` does, and adds its dependencies. */
function build(folder: string): string {
  const place = join(folder, 'package');
  mkdirSync(place);
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const project = join(root, 'tsconfig.build.json');
  execFileSync(process.execPath, [compiler, '-p', project, '--outDir', join(place, 'dist')]);
  for (const name of ['node_modules', 'generated', 'public', 'proto', 'package.json']) {
    symlinkSync(join(root, name), join(place, name));
  }
  return place;
}

async function timeStart(program: Program, home: string): Promise<{ ms: number; cpuMs: number }> {
  const { command, args } = pin('server', program.command, program.args);
  const startedAt = performance.now();
  const child = spawn(command, args, {
    // The service keeps its compile cache below HOME.
    env: { PATH: process.env['PATH'], HOME: home, ...program.env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      if (!line.includes('"listening"')) continue;
      const [response] = await once(get(`${JSON.parse(line).http}/users/7`), 'response');
      const ms = performance.now() - startedAt;
      const cpuMs = cpuTimeOf([child.pid ?? 0]).computed * 1000;
      if (response.statusCode !== 200) throw new Error(`${command} answered ${response.statusCode}`);
      response.resume();
      return { ms, cpuMs };
    }
    throw new Error(`${args.join(' ')} ended before it listened`);
  } finally {
    // End the process cleanly, so that it writes its compile cache.
    child.kill('SIGTERM');
    await exited;
  }
}
