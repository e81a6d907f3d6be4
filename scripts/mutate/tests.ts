import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Mutant } from './mutants.ts';

/** The test folders for the mutants of a source folder, the nearest first. */
const judges: readonly (readonly [source: string, ...tests: string[]])[] = [
  ['src/domain', 'domain', 'storage/memory', 'rest', 'grpc'],
  ['src/http', 'http', 'rest', 'service'],
  ['src/rest', 'rest', 'openapi', 'embedding', 'service'],
  ['src/grpc', 'grpc', 'embedding', 'service'],
  ['src/storage/memory', 'storage/memory', 'rest'],
  ['src/storage/sqlite', 'storage/sqlite', 'storage', 'commands'],
  ['src/storage/postgres', 'storage/postgres', 'storage', 'commands'],
  ['src/storage', 'storage', 'storage/memory', 'storage/sqlite', 'commands', 'storage/postgres'],
];

export const judgingFolders = [...new Set(judges.flatMap(([, ...tests]) => tests))];

/** What a test file executes. */
export interface Reach {
  readonly test: string;
  readonly hash: string;
  readonly ms: number;
  /** The text of each executed line of the source, which survives edits and moves. */
  readonly lines: readonly string[];
}

export const hashOf = (path: string) => createHash('sha256').update(readFileSync(path)).digest('base64');

interface Run {
  readonly cwd: string;
  readonly limitMs: number;
  readonly env: NodeJS.ProcessEnv;
  /** Runs only the tests whose name begins so. */
  readonly name?: string | undefined;
}

interface Outcome {
  readonly type: 'passed' | 'asserted' | 'failed' | 'timeout';
  /** The outermost test that failed. */
  readonly name?: string | undefined;
}

/** Runs a test file until its first failure. */
async function run(test: string, { cwd, limitMs, env, name }: Run): Promise<Outcome> {
  const only =
    name === undefined ? [] : [`--test-name-pattern=^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}`];
  const child = spawn(process.execPath, ['--test-reporter=tap', ...only, test], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const end = () => {
    try {
      process.kill(-(child.pid ?? Number.NaN), 'SIGKILL'); // its process group: with the processes it started
    } catch {} // they have ended
  };
  let output = '';
  let failure: RegExpExecArray | undefined;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-1_000_000);
    failure ??= /^( *)not ok [^\n]*\n\1 {2}---\n([\s\S]*?)\n\1 {2}\.\.\.\n/m.exec(output) ?? undefined;
    if (failure !== undefined) end();
  });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    end();
  }, limitMs);
  const [code] = await once(child, 'close');
  clearTimeout(timer);
  end();
  if (code === 0 && /^# pass [1-9]/m.test(output)) return { type: 'passed' };
  const { index, 2: report = '' }: Partial<RegExpExecArray> = failure ?? {};
  const failed = [...output.slice(0, index).matchAll(/^# Subtest: (.*)$/gm)].at(-1)?.[1];
  const isQuick = Number(/duration_ms: ([\d.]+)/.exec(report)?.[1]) < 1000;
  const isTimeout = isLate || /failureType: '(?:testTimeout|cancelled)/.test(report);
  const type = isTimeout
    ? 'timeout'
    : isQuick && report.includes("name: 'AssertionError'")
      ? 'asserted'
      : 'failed';
  // A test that hangs has not printed its name.
  return { type, name: isLate ? undefined : failed?.replace(/\\([\\#])/g, '$1') };
}

/** Tests that have passed without a mutant in this run. */
const sound = new Set<string>();

/** Whether a test file notices a mutant, which `write` puts into the copy of the checkout or takes out again. */
export async function kills(
  { test, ms }: Reach,
  cwd: string,
  write: (isMutant: boolean) => void,
  cache: string,
) {
  const judge = (isMutant: boolean, name?: string) => {
    write(isMutant);
    return run(test, { cwd, limitMs: 15_000 + 5 * ms, env: { NODE_COMPILE_CACHE: cache }, name });
  };
  const { type, name } = await judge(true);
  if (type === 'passed') return false;
  if (type === 'timeout' || !sound.has(`${test} ${name}`)) {
    if ((await judge(false, name)).type !== 'passed') return false;
    sound.add(`${test} ${name}`);
  }
  return type === 'asserted' || (await judge(true, name)).type !== 'passed';
}

/** Runs a test file and notes what it executes, or resolves to `undefined` if it fails. */
export async function reachOf(test: string, cwd: string): Promise<Reach | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'coverage-'));
  const start = performance.now();
  const outcome = await run(test, { cwd, limitMs: 300_000, env: { NODE_V8_COVERAGE: folder } });
  if (outcome.type !== 'passed') return undefined;
  const ms = Math.round(performance.now() - start);
  const lines = new Set<string>();
  const prefix = `${pathToFileURL(cwd)}/`;
  for (const name of globSync('*.json', { cwd: folder })) {
    for (const { url, functions } of JSON.parse(readFileSync(join(folder, name), 'utf8')).result) {
      const file = url.slice(prefix.length);
      if (!url.startsWith(prefix) || !file.startsWith('src/')) continue;
      const source = readFileSync(join(cwd, file), 'utf8');
      const isRun = new Uint8Array(source.length);
      for (const { ranges } of functions) {
        for (const range of ranges) isRun.fill(Number(range.count > 0), range.startOffset, range.endOffset);
      }
      let at = 0;
      for (const line of source.split('\n')) {
        if (isRun.subarray(at, at + line.length).includes(1)) lines.add(line.trim());
        at += line.length + 1;
      }
    }
  }
  rmSync(folder, { recursive: true });
  return { test, hash: hashOf(join(cwd, test)), ms, lines: [...lines] };
}

/** The test files that execute the line of a mutant, those first that are quick and likely to kill it. */
export function testsFor(
  { file, text, source }: Mutant,
  reach: readonly Reach[],
  best: ReadonlySet<string>,
): Reach[] {
  const folders = judges.find(([source]) => file.startsWith(`${source}/`))?.slice(1) ?? [];
  const ownLines = new Set(source.split('\n').map((line) => line.trim()));
  const near = reach.flatMap((one) => {
    const place = folders.indexOf(dirname(one.test).slice('test/'.length));
    const share = one.lines.filter((line) => ownLines.has(line)).length / ownLines.size;
    const isHit = one.lines.includes(text);
    const isBest = best.has(one.test) || basename(one.test, '.test.ts') === basename(file, '.ts');
    // A test file that executes most of a source file is about that file. Others only pass through it.
    const cost = one.ms * (1.1 - share) * (1 + place) ** 2 * (isBest ? 0.1 : 1);
    // A thread or process that is killed leaves no coverage, so other files follow those that execute the line.
    return place === -1 ? [] : [{ one, cost: isHit ? cost : 1e9 + cost }];
  });
  return near.toSorted((a, b) => a.cost - b.cost).map(({ one }) => one);
}
