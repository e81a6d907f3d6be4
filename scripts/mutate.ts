// Breaks the source in many small ways, and shows which of them no test notices:
//
//   npm run mutate -- [--count 300] [--seed 1] [--under 'src/http']
//
// First each test file runs once, to learn what it executes. Then each mutant is made in a copy of the
// checkout and meets the test files that execute its place, those of its own folder first. The first
// failure kills it, and so does a run that takes too long; a mutant that all of them pass lives.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, glob, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Chance } from '../test/kit/generate.ts';

const { values: given } = parseArgs({
  options: {
    count: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    under: { type: 'string', default: 'src/{domain,http,rest,grpc,storage}' },
  },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const testFiles = 'test/{domain,http,rest,grpc,storage,service,telemetry,embedding,openapi}/**/*.test.ts';
// Behind these, another test file seldom finds what they have not.
const maxJudges = 30;
const slowMs = 45_000;

interface TestFile {
  readonly path: string;
  readonly ms: number;
  /** By source file, its functions and blocks: start, end, and how often they ran. */
  readonly ran: ReadonlyMap<string, readonly (readonly [number, number, number])[]>;
}

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

/** Whether test files pass; their run ends with the first failure. */
async function passes(paths: readonly string[], timeoutMs: number, coverage?: string): Promise<boolean> {
  const flags = ['--test', '--test-reporter=tap', '--test-concurrency=2', '--test-timeout=60000'];
  const child = spawn(process.execPath, [...flags, ...paths], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
    env: { ...process.env, ...(coverage !== undefined && { NODE_V8_COVERAGE: coverage }) },
  });
  let failed = false;
  const end = () => {
    failed = true;
    // Its process group: what its tests have started ends too.
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => /^ *not ok/m.test(text) && end());
  const timer = setTimeout(end, timeoutMs);
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  return !failed && code === 0;
}

/** Learns what a test file executes; nothing, if it fails or takes too long even without a mutant. */
async function learn(path: string): Promise<TestFile[]> {
  const coverage = await mkdtemp(join(tmpdir(), 'coverage-'));
  const since = performance.now();
  const passed = await passes([path], slowMs, coverage);
  const ms = performance.now() - since;
  const ran = new Map<string, [number, number, number][]>();
  for await (const file of glob(join(coverage, '*.json'))) {
    for (const { url, functions } of JSON.parse(await readFile(file, 'utf8')).result) {
      const [, source = ''] = String(url).split(`file://${folder}/`);
      const ranges = ran.get(source) ?? [];
      for (const block of functions.flatMap((one: { ranges: object[] }) => one.ranges)) {
        ranges.push([block.startOffset, block.endOffset, block.count]);
      }
      ran.set(source, ranges);
    }
  }
  await rm(coverage, { recursive: true });
  console.log(`${passed ? 'learned' : 'left out, since it fails or is slow by itself'}: ${path}`);
  return passed ? [{ path, ms, ran }] : [];
}

/** Whether a test file executes a place: the smallest block around it ran, in one of its processes. */
function executes({ ran }: TestFile, { file, start }: Mutant): boolean {
  const around = (ran.get(file) ?? []).filter(([from, to]) => from <= start && start < to);
  const size = Math.min(...around.map(([from, to]) => to - from));
  return around.some(([from, to, count]) => to - from === size && count > 0);
}

async function lives(mutant: Mutant, files: readonly TestFile[]): Promise<boolean> {
  const { file, start, from, to } = mutant;
  const isFar = ({ path }: TestFile) => Number(path.split('/')[1] !== file.split('/')[1]);
  const judges = files.filter((one) => executes(one, mutant));
  judges.sort((a, b) => isFar(a) - isFar(b) || a.ms - b.ms).splice(maxJudges);
  if (judges.length === 0) return true;
  const source = await readFile(join(root, file), 'utf8');
  await writeFile(join(folder, file), source.slice(0, start) + to + source.slice(start + from.length));
  const timeoutMs = judges.reduce((sum, { ms }) => sum + 2 * ms, 30_000);
  const passed = await passes(
    judges.map(({ path }) => path),
    timeoutMs,
  );
  await writeFile(join(folder, file), source);
  return passed;
}

const folder = await mkdtemp(join(tmpdir(), 'mutants-'));
await cp(root, folder, { recursive: true, filter: (path) => !/\/(?:node_modules|\.git|dist)$/.test(path) });
await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
const files: TestFile[] = [];
for await (const path of glob(testFiles, { cwd: root })) files.push(...(await learn(path)));
const all: Mutant[] = [];
for await (const file of glob(`${given.under}/**/*.ts`, { cwd: root })) {
  all.push(...mutantsOf(file, await readFile(join(root, file), 'utf8')));
}
all.sort((a, b) => a.file.localeCompare(b.file) || a.start - b.start);
const chance = new Chance(Number(given.seed));
const count = Math.min(Number(given.count), all.length);
let living = 0;
for (let i = 1; i <= count; i += 1) {
  const [mutant] = all.splice(chance.below(all.length), 1);
  if (mutant === undefined) break;
  const isAlive = await lives(mutant, files);
  if (isAlive) living += 1;
  const { file, start, from, to } = mutant;
  const line = (await readFile(join(root, file), 'utf8')).slice(0, start).split('\n').length;
  const change = `${from.replace(/\s+/g, ' ')} -> ${to || '(nothing)'}`;
  console.log(`${i}/${count} ${isAlive ? 'LIVES ' : 'killed'} ${file}:${line} ${change}`);
}
console.log(`${living} of ${count} mutants live (${((100 * living) / count).toFixed(1)} %)`);
await rm(folder, { recursive: true });
