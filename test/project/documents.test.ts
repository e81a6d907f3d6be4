import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { documents, tablesOf } from '../kit/markdown.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

test('README.md is at most 13 KiB', () => {
  const bytes = Buffer.byteLength(documents.get('README.md') ?? '');
  assert.ok(
    bytes > 0 && bytes <= 13 * 1024,
    `it has ${bytes} bytes: move details to the README of their folder`,
  );
});

/** The anchor GitHub gives a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

test('each relative link of the documentation has an existing file and heading as its target', () => {
  const broken: string[] = [];
  for (const [path, text] of documents) {
    for (const [, target = ''] of text.matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)) {
      const [file = '', anchor] = target.split('#');
      const to = file === '' ? path : join(dirname(path), file);
      const isFolder = documents.has(join(to, 'README.md'));
      const headings = [...(documents.get(to) ?? '').matchAll(/^#+ (.*)$/gm)].map(([, text = '']) =>
        anchorOf(text),
      );
      const isThere = existsSync(join(root, to)) || isFolder;
      if (!isThere || (anchor !== undefined && !headings.includes(anchor))) broken.push(`${path}: ${target}`);
    }
  }
  assert.deepEqual(broken, []);
});

test('links lead from README.md to each page of the documentation', () => {
  const found = new Set(['README.md']);
  // The loop also visits the pages that it adds.
  for (const path of found) {
    for (const [, target = ''] of (documents.get(path) ?? '').matchAll(/\]\((?![a-z]+:)([^)\s#]+)/g)) {
      const to = join(dirname(path), target);
      for (const page of [to, join(to, 'README.md')]) if (documents.has(page)) found.add(page);
    }
  }
  assert.deepEqual([...found].sort(), [...documents.keys()].sort());
});

test('each TypeScript file that src/README.md names exists', () => {
  const existing = globSync('{src,test}/**/*.ts', { cwd: root });
  const named = [...(documents.get('src/README.md') ?? '').matchAll(/`([\w/.-]+\.ts)`/g)];
  const missing = named.filter(([, name]) => !existing.some((path) => `/${path}`.endsWith(`/${name}`)));
  assert.ok(named.length > 0);
  assert.deepEqual(
    missing.map(([, name]) => name),
    [],
  );
});

test('the pages of the rooms http and grpc name each of their files', () => {
  for (const room of ['src/http', 'src/grpc']) {
    const text = documents.get(`${room}/README.md`) ?? '';
    const files = globSync('*.ts', { cwd: join(root, room) }).map((file) => file.replace('.ts', ''));
    const missing = files.filter((name) => !text.includes(`\`${name}\``));
    assert.deepEqual(missing, [], room);
  }
});

test('each npm script in the documentation exists', () => {
  const named = [...documents.values()].flatMap((text) => [...text.matchAll(/npm run ([a-z:-]+)/g)]);
  const unknown = named.map(([, name = '']) => name).filter((name) => scripts[name] === undefined);
  assert.deepEqual(unknown, []);
});

test('scripts/README.md describes each npm script that runs a file of scripts', () => {
  const described = tablesOf('scripts').flatMap(({ rows }) =>
    rows.map(([cell = '']) => /^`npm run ([a-z:-]+)/.exec(cell)?.[1]),
  );
  const run = Object.keys(scripts).filter((name) => scripts[name]?.includes('scripts/'));
  const missing = run.filter((name) => !described.includes(name));
  assert.deepEqual(missing, []);
});

test('each npm script that runs a file of scripts has --help, and rejects unknown arguments', () => {
  const files = Object.values(scripts).flatMap((command) => /scripts\/(?!\S+ ci)\S+\.ts/.exec(command) ?? []);
  const others = files.filter((file) => !readFileSync(join(root, file), 'utf8').includes('readArguments('));
  assert.deepEqual(others, []);
});

test('each file of scripts is run by an npm script or imported by another file', () => {
  const files = globSync('scripts/*.ts', { cwd: root });
  const texts = globSync('{scripts,test}/**/*.ts', { cwd: root, exclude: ['**/node_modules/**'] }).map(
    (file) => readFileSync(join(root, file), 'utf8'),
  );
  const isUsed = (file: string) =>
    Object.values(scripts).some((command) => command.includes(file)) ||
    texts.some((text) => text.includes(`/${file.replace('scripts/', '')}'`));
  const unused = files.filter((file) => !isUsed(file));
  assert.deepEqual(unused, []);
});

test('the CI workflow pins each action to a commit, with its version in a comment', () => {
  const workflow = readFileSync(join(root, '.github/workflows/ci.yml'), 'utf8');
  const uses = [...workflow.matchAll(/uses: (.*)$/gm)].map(([, action = '']) => action);
  assert.ok(uses.length > 0);
  for (const action of uses) assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});
