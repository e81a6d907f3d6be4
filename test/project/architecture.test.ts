import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tableOf } from '../kit/markdown.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

// The folders and files of src, and from which others each may import values. Types of a leaf may be imported
// anywhere.
const arrows: Readonly<Record<string, readonly string[]>> = {
  main: ['commands'],
  index: ['service', 'http', 'storage', 'domain', 'telemetry'],
  commands: ['service', 'workers', 'config', 'storage', 'conformance', 'domain', 'telemetry'],
  config: ['domain', 'storage'],
  workers: ['domain', 'telemetry'],
  service: ['rest', 'grpc', 'http', 'storage', 'domain', 'telemetry', 'config'],
  rest: ['http', 'domain', 'telemetry'],
  grpc: ['domain', 'telemetry', 'generated'],
  http: ['telemetry'],
  storage: ['domain'],
  conformance: ['domain'],
};
const leaves = ['config'];
// The folders that may import each package.
const packages: Readonly<Record<string, readonly string[]>> = {
  '@grpc/grpc-js': ['grpc'],
  '@grpc/reflection': ['grpc'],
  'grpc-health-check': ['grpc'],
  'google-protobuf': ['grpc'],
  pg: ['storage'],
  // Only `http/node-http.ts` loads these. It does not import them, because an import would load much more.
  'node:http': [],
  'node:https': [],
  // A service without keys starts without it.
  'node:crypto': ['storage', 'commands'],
  'node:sqlite': ['storage'],
  'node:cluster': ['workers'],
  'node:test': ['conformance'],
  'node:process': [],
};

interface Import {
  readonly from: string;
  /** The path of a file from the root of the project, or the name of a package. */
  readonly to: string;
  readonly isType: boolean;
  readonly line: string;
}

const files = globSync('src/**/*.{ts,cjs}', { cwd: root }).map(normalize).sort();
const textOf = (file: string) => readFileSync(join(root, file), 'utf8');

// `import … from`, `export … from`, `import '…'` and `import('…')`. The last is a type after `typeof`.
const statement =
  /^(import|export)\s+(type\s+)?([^'"`;]*?\bfrom\s+)?'([^']+)'|(?<![#.\w])(?<!typeof )import\(\s*'([^']+)'/gm;

function importsOf(file: string): Import[] {
  return [...textOf(file).matchAll(statement)].map(([line, , type, names = '', plain, dynamic]) => {
    const target = plain ?? dynamic ?? '';
    const to = target.startsWith('.') ? join(dirname(file), target) : target;
    const named = /\{([^}]*)\}/.exec(names)?.[1]?.split(',') ?? [''];
    const onlyTypes = named.every((name) => name.trim() === '' || name.trim().startsWith('type '));
    const isType = type !== undefined || (names.includes('{') && onlyTypes);
    return { from: file, to, isType, line: line.replaceAll(/\s+/g, ' ') };
  });
}

const imports = files.flatMap(importsOf);
const ours = imports.filter(({ to }) => to.startsWith('src/') || to.startsWith('generated/'));

/** `src/http/send.ts` belongs to `http`. `src/config.ts` is a separate part, and `main` is two files. */
function roomOf(path: string): string {
  const [top = '', second = ''] = path.split('/');
  return top === 'src' ? second.replace('require-node', 'main').replace(/\.(ts|cjs)$/, '') : top;
}

function isAllowed({ from, to, isType }: Import): boolean {
  const [room, other] = [roomOf(from), roomOf(to)];
  if (room === other || (arrows[room] ?? []).includes(other)) return true;
  return isType && leaves.includes(other);
}

test('imports are found in all their forms', () => {
  assert.ok(files.length > 60, `${files.length} files`);
  assert.ok(ours.length > 150, `${ours.length} imports`);
  assert.ok(ours.some(({ from, line }) => from === 'src/main.ts' && line.startsWith('import(')));
  for (const { to } of ours.filter((one) => one.to.startsWith('src/'))) assert.ok(files.includes(to), to);
});

test('each file imports only from the folders that its folder may import from', () => {
  const wrong = ours.filter((one) => !isAllowed(one)).map(({ from, line }) => `${from}: ${line}`);
  assert.deepEqual(wrong, []);
});

test('every allowed import between folders is in use', () => {
  const used = new Set(ours.map(({ from, to }) => `${roomOf(from)} -> ${roomOf(to)}`));
  const drawn = Object.entries(arrows).flatMap(([room, others]) =>
    others.map((other) => `${room} -> ${other}`),
  );
  const unused = drawn.filter((arrow) => !used.has(arrow));
  assert.deepEqual(unused, []);
});

test('src/README.md draws the same imports between folders', () => {
  const rooms = ['domain', 'telemetry'].map((room): [string, string[]] => [room, []]);
  const drawn = tableOf('rooms').rows.map(([room = '', , others = '']) => `${room} ${others}`);
  const expected = [...Object.entries(arrows), ...rooms].map(([room, to]) => `\`${room}\` ${to.join(', ')}`);
  assert.deepEqual(drawn.toSorted(), expected.toSorted());
});

test('imports form no cycles', () => {
  const next = Map.groupBy(ours, ({ from }) => from);
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (done.has(file) || path.includes(file)) return;
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  assert.deepEqual(circles, []);
});

test('a package is imported only where it belongs', () => {
  const wrong = imports
    .filter(({ to, isType }) => !isType && !to.startsWith('src/') && !to.startsWith('generated/'))
    .filter(({ from, to }) => !(packages[to]?.includes(roomOf(from)) ?? to.startsWith('node:')))
    .map(({ from, line }) => `${from}: ${line}`);
  assert.deepEqual(wrong, []);
});

test('only one file imports the generated code', () => {
  const doors = ours.filter(({ to }) => to.startsWith('generated/')).map(({ from }) => from);
  assert.deepEqual([...new Set(doors)], ['src/grpc/users.ts']);
});

test('src/index.ts only re-exports', () => {
  const statements = textOf('src/index.ts')
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    .split(';');
  const wrong = statements
    .map((text) => text.trim())
    .filter((text) => text !== '' && !/^export (type )?\{[^}]*\} from '/.test(text));
  assert.deepEqual(wrong, []);
});

/** The code of a file, without comments and the contents of strings. */
function codeOf(file: string): string {
  return textOf(file)
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/(^|[^:\\])\/\/.*$/gm, '$1')
    .replaceAll(/'(?:[^'\\\n]|\\.)*'/g, "''");
}

const bans: readonly [what: string, pattern: RegExp, except: readonly string[]][] = [
  ['the process', /(?<![.\w])process\s*[.[]/, ['src/main.ts', 'src/require-node.cjs']],
  ['the console', /(?<![.\w])console\s*\./, []],
  ['a default export', /^export default\b|\bas default\b/m, []],
  ['a TODO', /\b(?:TODO|FIXME|XXX)\b/, []],
];

for (const [what, pattern, except] of bans) {
  test(`no file${except.length > 0 ? ` except ${except}` : ''} has ${what}`, () => {
    const wrong = files.filter((file) => !except.includes(file) && pattern.test(codeOf(file)));
    assert.deepEqual(wrong, []);
  });
}

test('no file is longer than 300 lines, and half of the files are no longer than 140', () => {
  const lengths = files.map((file) => ({ file, lines: textOf(file).split('\n').length - 1 }));
  const long = lengths.filter(({ lines }) => lines > 300);
  assert.deepEqual(long, []);
  const median = lengths.map(({ lines }) => lines).sort((a, b) => a - b)[Math.floor(files.length / 2)] ?? 0;
  assert.ok(median <= 140, `the median is ${median}`);
});

test('file names are in kebab-case', () => {
  const misnamed = files.filter((file) => !/^src(?:\/[a-z][a-z0-9-]*)+\.(ts|cjs)$/.test(file));
  assert.deepEqual(misnamed, []);
});

// The suites of the console share the hook that closes the browser. Node.js runs it as soon as all suites that are
// declared so far have ended: before the tests of a suite that awaits first, if only these run.
test('no suite of the console awaits before it declares its tests', () => {
  const suites = globSync('test/console/*.suite.ts', { cwd: root });
  const awaiting = suites.filter((file) => /^(?!\/\/)\S.*\bawait\b/m.test(textOf(file)));
  assert.deepEqual(awaiting, []);
});

test('npm test runs each test file once', () => {
  const { scripts }: { scripts: { test: string } } = JSON.parse(textOf('package.json'));
  const [run, joined] = [/"(test\/[^"]+)"/g, /importTests\('(.+)'\)/g];
  const folders = globSync('test/joined/*.ts', { cwd: root }).flatMap((file) => [
    ...textOf(file).matchAll(joined),
  ]);
  const patterns = [
    ...[...scripts.test.matchAll(run)].map(([, pattern = '']) => pattern),
    ...folders.map(([, folder]) => `test/${folder}/**/!(*.alone).test.ts`),
  ];
  const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: root }));
  const tests = files.filter((file) => file.endsWith('.test.ts')).sort();
  assert.deepEqual(tests, globSync('test/**/*.test.ts', { cwd: root }).sort());
});
