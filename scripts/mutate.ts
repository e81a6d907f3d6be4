// Breaks the source in many small ways, and shows which of them no test notices:
//
//   npm run mutate -- [--count 300] [--seed 1] [--under 'src/http'] [--at-once 2]
//
// Each mutant is made in a copy of the checkout. Its tests run until one fails: first the file of the same name,
// then its folder, then the folders that use it. A failure kills the mutant if the same test file passes without
// it. A mutant that fails no test lives.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Random } from '../src/conformance/random.ts';

const { values: given } = parseArgs({
  options: {
    count: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    under: { type: 'string', default: 'src/{domain,http,rest,grpc,storage}' },
    'at-once': { type: 'string', default: '2' },
  },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const timeoutMs = 300_000;

/** The test folders for the mutants of a source folder, the nearest first. */
const judges: readonly (readonly [source: string, ...tests: string[]])[] = [
  ['src/domain', 'domain', 'storage/memory', 'rest', 'grpc'],
  ['src/http', 'http', 'rest', 'service'],
  ['src/rest', 'rest', 'openapi', 'service'],
  ['src/grpc', 'grpc', 'service'],
  ['src/storage/memory', 'storage/memory', 'rest'],
  ['src/storage/sqlite', 'storage/sqlite', 'commands'],
  ['src/storage/postgres', 'storage/postgres'],
  ['src/storage', 'storage', 'storage/memory', 'storage/sqlite', 'commands'],
];

interface Mutant {
  readonly file: string;
  readonly start: number;
  readonly from: string;
  readonly to: string;
}

const pairs = '=== !== < <= > >= && || + - += -= * / true false'.split(' ');
const swaps = new Map(pairs.map((from, i) => [from, pairs[i ^ 1]]));
const parts = {
  skipped: /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|import [^;]*;/,
  regex: /\/(?![*/ ])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*/,
  call: /(?<=\n\s*)(?:await |void )?[\w.#?]+\([^;{}]*\);(?=\n)/,
  operator: /(?<= )(?:===|!==|<=?|>=?|&&|\|\||\+=?|-=?|\*|\/)(?= )|\b(?:true|false)\b/,
  number: /(?<![\w.#$])\d[\d_]*(?![\w.])/,
  negation: /!(?=[\w(])/,
};
const token = new RegExp(
  Object.entries(parts)
    .map(([name, { source }]) => `(?<${name}>${source})`)
    .join('|'),
  'g',
);

function mutantsOf(file: string, source: string): Mutant[] {
  // Types become spaces, and everything else stays where it is.
  return [...stripTypeScriptTypes(source).matchAll(token)].flatMap((match): Mutant[] => {
    const { skipped, regex, call, operator, number } = match.groups ?? {};
    if (skipped !== undefined || regex !== undefined) return [];
    const next = number && String(Number(number.replaceAll('_', '')) + 1);
    const to = (operator && swaps.get(operator)) ?? next ?? (call === undefined ? '' : ';');
    return [{ file, start: match.index, from: match[0], to }];
  });
}

/** Runs test files until one fails, and resolves to that file, if any. */
async function failing(files: readonly string[], cwd: string): Promise<string | undefined> {
  const flags = ['--test', '--test-reporter=tap', '--test-concurrency=1', '--test-timeout=60000', ...files];
  const child = spawn(process.execPath, flags, { cwd, stdio: ['ignore', 'pipe', 'ignore'], detached: true });
  let output = '';
  let failed: string | undefined;
  // Ends its process group, and so the processes that its tests have started.
  const end = () => child.pid !== undefined && child.exitCode === null && process.kill(-child.pid, 'SIGKILL');
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-100_000);
    const place = /^ *not ok [\s\S]*?location: '([^']*?):\d+:\d+'/m.exec(output)?.[1];
    if (place === undefined) return;
    failed ??= relative(cwd, place);
    end();
  });
  const timer = setTimeout(end, timeoutMs);
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  return failed ?? (code === 0 ? undefined : files[0]);
}

/** Whether a test file that failed with a mutant passes without one. */
const isReliable = new Map<string, Promise<boolean>>();

/** Resolves to the test file that kills a mutant, if any. */
async function killer({ file, start, from, to }: Mutant, cwd: string): Promise<string | undefined> {
  const folders = judges.find(([source]) => file.startsWith(`${source}/`))?.slice(1) ?? [];
  const all = folders.map((folder) => globSync(`test/${folder}/*.test.ts`, { cwd: root }).sort());
  const name = basename(file, '.ts');
  const namesake = all.flat().filter((path) => basename(path, '.test.ts') === name);
  const source = readFileSync(join(root, file), 'utf8');
  const place = join(cwd, file);
  for (const stage of [namesake, ...all]) {
    let files = stage.filter((path) => stage === namesake || !namesake.includes(path));
    while (files.length > 0) {
      writeFileSync(place, source.slice(0, start) + to + source.slice(start + from.length));
      const found = await failing(files, cwd);
      writeFileSync(place, source);
      if (found === undefined) break;
      const passes = isReliable.get(found) ?? failing([found], cwd).then((one) => one === undefined);
      isReliable.set(found, passes);
      if (await passes) return found;
      console.log(`left out, since it fails without a mutant: ${found}`);
      files = files.filter((path) => path !== found);
    }
  }
  return undefined;
}

const all = globSync(`${given.under}/**/*.ts`, { cwd: root }).sort();
const mutants = all.flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')));
const random = new Random(Number(given.seed));
const count = Math.min(Number(given.count), mutants.length);
const drawn = Array.from({ length: count }, () => mutants.splice(random.below(mutants.length), 1)).flat();
let [judged, living] = [0, 0];
async function work(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'mutants-'));
  await cp(root, folder, { recursive: true, filter: (path) => !/\/(?:node_modules|\.git|dist)$/.test(path) });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (let mutant = drawn.shift(); mutant !== undefined; mutant = drawn.shift()) {
    const { file, start, from, to } = mutant;
    const by = await killer(mutant, folder);
    judged += 1;
    if (by === undefined) living += 1;
    const line = readFileSync(join(root, file), 'utf8').slice(0, start).split('\n').length;
    const change = `${from.replace(/\s+/g, ' ')} -> ${to || '(nothing)'}`;
    const fate = by === undefined ? 'LIVES' : `killed by ${by}`;
    console.log(`${judged}/${count} ${fate}: ${file}:${line} ${change}`);
  }
  await rm(folder, { recursive: true });
}
await Promise.all(Array.from({ length: Number(given['at-once']) }, work));
console.log(`${living} of ${judged} mutants live (${((100 * living) / judged).toFixed(1)} %)`);
