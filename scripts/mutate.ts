// Breaks the source in small ways, and lists what no test notices: `npm run mutate -- [--count 300] [--seed 1] [--minutes 60]`.
//
// The seed decides the order of the mutants. Those that do not compile do not count. The test files that execute
// the line of a mutant judge it, those in its folder first. It lives if 40 of them pass. A busy machine fails
// tests too. So a test kills a mutant only if an assertion fails, or if the test passes without the mutant and then
// fails with it again. A JSON file keeps all verdicts for the next run. To judge a mutant again, remove it there.
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, globSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import * as ts from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';
import { startPostgres } from '../test/kit/postgres.ts';
import { readArguments } from './harness/arguments.ts';
import { fail } from './harness/fail.ts';

const { count, seed, minutes } = readArguments({ count: 300, seed: 1, minutes: 60 });
const deadline = performance.now() + 60_000 * minutes;
const root = join(import.meta.dirname, '..');
const cwd = join(tmpdir(), `users-service-mutants-${seed}`);
rmSync(cwd, { recursive: true, force: true });
cpSync(root, cwd, { recursive: true, filter: (path) => !/\/(?:node_modules|\.git|dist)$/.test(path) });
symlinkSync(join(root, 'node_modules'), join(cwd, 'node_modules'));
const saved = `${cwd}.json`;
const state: State = { judges: {}, verdicts: {} };
if (existsSync(saved)) Object.assign(state, JSON.parse(readFileSync(saved, 'utf8')));
const save = () => writeFileSync(saved, JSON.stringify(state));

interface State {
  /** Test files with the text of the lines that they execute, by source file. Line numbers change with edits. */
  readonly judges: Record<string, { ms: number; lines: Record<string, string[]> }>;
  readonly verdicts: Record<string, string>;
}

/** Runs a test file. Without a change of a source file, notes the lines that it executes. */
async function outcomeOf(test: string, timeout: number, change?: [path: string, text: string]) {
  if (change !== undefined) writeFileSync(...change);
  const flags = change ? ['--test-reporter=tap'] : ['--experimental-test-coverage', '--test-reporter=lcov'];
  const child = spawn('node', [...flags, test], { cwd, detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  // The whole group, because a mutant can also keep a process that the test started from ending.
  const timer = setTimeout(() => {
    try {
      process.kill(-Number(child.pid), 'SIGKILL');
    } catch {
      // All of them have ended.
    }
  }, timeout);
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  clearTimeout(timer);
  const lines: Record<string, string[]> = {};
  for (const [, file = '', found = ''] of stdout.matchAll(/^SF:(.*)$([\s\S]*?)^end_of_record/gm)) {
    // Other files have no mutants. A temporary one of a test may be gone.
    if (!file.startsWith('src/')) continue;
    const texts = readFileSync(join(cwd, file), 'utf8').split('\n');
    const executed = found.matchAll(/^DA:(\d+),[1-9]/gm);
    lines[file] = Array.from(executed, ([, number]) => texts[Number(number) - 1]?.trim() ?? '');
  }
  return { passes: code === 0, isAsserted: stdout.includes("code: 'ERR_ASSERTION'"), lines };
}

/** Operators, literals and methods, each with what replaces it. */
const swaps = new Map(
  `< <= >=, <= < >, > >= <=, >= > <, === !==, !== ===, && ||, || &&, ?? &&, + -, - +, * /, / *, % *, += -=, -= +=,
  *= /=, ||= &&=, &&= ||=, ??= &&=, ?. ., true false, false true, some every, every some, min max, max min,
  startsWith endsWith, endsWith startsWith, toUpperCase toLowerCase, toLowerCase toUpperCase`
    .split(/,\s+/)
    .map((line): [string, string[]] => [line.split(' ', 1).join(), line.split(' ').slice(1)]),
);
const comparison = /^(?:[<>]=?|[=!]==|&&|\|\|)$/;

/** What can replace a node or its condition: the default operators of Stryker, and removed calls. */
function replacements(node: ts.Node): (readonly [node: ts.Node, to: string])[] {
  const text = node.getText();
  const replace = (part: ts.Node, ...to: string[]) =>
    to.filter((one) => one !== part.getText()).map((one) => [part, one] as const);
  if (ts.isIfStatement(node)) return replace(node.expression, 'true', 'false');
  if (ts.isConditionalExpression(node)) return replace(node.condition, 'true', 'false');
  if (ts.isBinaryExpression(node))
    return comparison.test(node.operatorToken.getText()) ? replace(node, 'true', 'false') : [];
  if (ts.isPrefixUnaryExpression(node)) return replace(node, (text[0] === '-' ? '+' : '') + text.slice(1));
  if (ts.isStringLiteralLikeNode(node) || ts.isTemplateExpression(node))
    return replace(node, text.length > 2 ? "''" : "'changed'");
  if (ts.isRegularExpressionLiteral(node))
    return replace(node, text.replace('/^', '/'), text.replace(/\$(?=\/\w*$)/, ''));
  if (ts.isBlock(node) || ts.isObjectLiteralExpression(node)) return replace(node, '{}');
  if (ts.isArrayLiteralExpression(node)) return replace(node, text === '[]' ? "['changed']" : '[]');
  if (ts.isExpressionStatement(node)) return ts.isBinaryExpression(node.expression) ? [] : replace(node, ';');
  if (ts.isCallExpression(node))
    return replace(node, text.replace(/\.(?:filter|slice|trim|sort|toSorted|reverse|charAt)\([^()]*\)$/, ''));
  return replace(node, ...(swaps.get(text) ?? []));
}

const postgres = await startPostgres({ max_connections: '200' });
process.env['TEST_DATABASE_URL'] = postgres.server.url();
const folders = '{config,domain,http,rest,grpc,storage,service,commands,workers,openapi,embedding,telemetry}';
for (const test of globSync(`test/${folders}{,/**/*}.test.ts`, { cwd })) {
  if (performance.now() > deadline || state.judges[test] !== undefined) continue;
  const start = performance.now();
  const { passes, lines } = await outcomeOf(test, 120_000);
  console.log(`${test} ${passes ? 'passes' : 'fails, and judges no mutant'}`);
  state.judges[test] = { ms: Math.round(performance.now() - start), lines: passes ? lines : {} };
  save();
}
process.env['NODE_COMPILE_CACHE'] = `${cwd}/cache`; // not before, since it makes coverage less exact

const api = new API({ cwd });
const openProjects = [join(cwd, 'tsconfig.json')];
const compile = (...changed: string[]) =>
  api.updateSnapshot({ openProjects, fileChanges: { changed } }).getProjects()[0]?.program;
const sources = [
  'src/*.ts',
  'src/{commands,domain,grpc,http,rest,service,storage,telemetry,workers}/**/*.ts',
];
const mutants = globSync(sources, { cwd }).flatMap((file) => {
  const changes: ReturnType<typeof replacements> = [];
  const visit = (node: ts.Node): void => {
    if (ts.isTypeNode(node)) return;
    changes.push(...replacements(node));
    node.forEachChild(visit);
  };
  compile()?.getSourceFile(join(cwd, file))?.forEachChild(visit);
  return changes.map(([node, to]) => {
    const [start, source] = [node.getStart(), node.getSourceFile().text];
    const before = source.slice(0, start).split('\n').at(-1) ?? '';
    const line = (before + source.slice(start).split('\n', 1)).trim();
    const key = JSON.stringify([file, line, before.length, node.getText(), to]);
    const changed = source.slice(0, start) + to + source.slice(node.end);
    return [key, { rank: hash('sha256', seed + key), file, line, source, changed }] as const;
  });
});
let [judged, living] = [0, 0];
// A condition that is a comparison has the same mutants twice.
const order = [...new Map(mutants)].sort(([, a], [, b]) => (a.rank < b.rank ? -1 : 1));
for (const [key, { file, line, source, changed }] of order) {
  if (judged === count || performance.now() > deadline) break;
  const path = join(cwd, file);
  writeFileSync(path, changed);
  const errors = compile(path)?.getSemanticDiagnostics(path) ?? [];
  const isValid = errors.every(({ code }) => /^(?:61..|7027)$/.test(`${code}`)); // only unused or unreachable code
  const folder = dirname(file)
    .replace('src', 'test')
    .replace(/^test$/, 'test/service');
  const near = Object.entries(isValid && state.verdicts[key] === undefined ? state.judges : {})
    .filter(([, { lines }]) => lines[file]?.includes(line))
    .map(([test, { ms, lines }]) => ({ test, ms, cost: ms / (lines[file]?.length ?? 0) }))
    .sort((a, b) => Number(b.test.startsWith(folder)) - Number(a.test.startsWith(folder)) || a.cost - b.cost);
  let by = state.verdicts[key] ?? ''; // stays empty if the mutant lives
  for (const { test, ms } of near.slice(0, 40)) {
    const judge = (text: string) => outcomeOf(test, 10_000 + 5 * ms, [path, text]);
    const { passes, isAsserted } = await judge(changed);
    if (isAsserted || (!passes && (await judge(source)).passes && !(await judge(changed)).passes)) by = test;
    if (by !== '') break;
  }
  writeFileSync(path, source);
  compile(path);
  if (!isValid) continue;
  state.verdicts[key] = by;
  judged += 1;
  living += Number(by === '');
  console.log(`${judged}/${count} ${by === '' ? 'LIVES' : `killed by ${by}`}: ${key}`);
  save();
}
if (judged === 0) fail('no mutant was judged before the time was over');
else console.log(`${living} of ${judged} mutants live (${((100 * living) / judged).toFixed(1)} %)`);
api.close();
await postgres.close();
