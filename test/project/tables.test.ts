import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { defaultText, variableOf } from '../../src/commands/command-line.ts';
import { optionRows } from '../../src/config.ts';
import { Access } from '../../src/domain/access.ts';
import { errorKinds } from '../../src/domain/errors.ts';
import { errorStatuses as grpcStatuses } from '../../src/grpc/errors.ts';
import { type RouteAccess, routes } from '../../src/rest/app.ts';
import { errorStatuses } from '../../src/rest/errors.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';

// The README's tables, compared with the source. A column that only people can write is kept as it is;
// a failure prints the table to paste.

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

interface Table {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** The table behind `<!-- marker -->`. */
function tableOf(marker: string): Table {
  const [, behind] = readme.split(`<!-- ${marker} -->\n`);
  assert.ok(behind !== undefined, `README.md has no <!-- ${marker} -->`);
  const [header = [], , ...rows] =
    behind
      .trimStart()
      .split(/\n(?!\|)/)[0]
      ?.split('\n')
      .map((line) =>
        line
          .split(/(?<!\\)\|/)
          .slice(1, -1)
          .map((cell) => cell.trim()),
      ) ?? [];
  return { header, rows };
}

/** Compares a table with the rows it should have; `undefined` stands for a cell that people write. */
function compare(marker: string, expected: readonly (readonly (string | undefined)[])[]): void {
  const { header, rows } = tableOf(marker);
  const filled = expected.map((cells) => {
    const written = rows.find(([first]) => first === cells[0]);
    return cells.map((cell, column) => cell ?? written?.[column] ?? '…');
  });
  const paste = [header, header.map(() => '---'), ...filled].map((cells) => `| ${cells.join(' | ')} |`);
  assert.deepEqual(
    rows,
    filled,
    `README.md, behind <!-- ${marker} -->, should have\n\n${paste.join('\n')}\n`,
  );
  for (const [first, ...cells] of rows) {
    assert.ok(
      cells.every((cell) => cell !== '…'),
      `${first} is not described`,
    );
  }
}

const keys: Readonly<Record<RouteAccess, string>> = {
  open: 'open',
  read: '`auth` = `all`',
  write: '`auth` ≠ `none`',
  metrics: '`auth` ≠ `none`',
};

test('the routes of the README are those of the source', () => {
  const definitions = routes({
    repository: createMemoryStore(),
    access: new Access('none', []),
    requirePreconditions: false,
    refusal: () => undefined,
    renderMetrics: () => '',
  });
  compare(
    'routes',
    definitions.map(({ pattern, access }) => [
      `\`${pattern}\``,
      undefined,
      // It asks for a key itself, whatever `auth` says.
      pattern === 'GET /private' ? 'always' : keys[access],
    ]),
  );
});

test('the errors of the README are those of the source, with the statuses of both APIs', () => {
  const kinds = errorKinds.toSorted((a, b) => errorStatuses[a] - errorStatuses[b]);
  compare(
    'errors',
    kinds.map((kind) => [`\`${kind}\``, String(errorStatuses[kind]), status[grpcStatuses[kind]], undefined]),
  );
});

test('the options of the README are those of the source', () => {
  compare(
    'options',
    optionRows.map(([flag, row]) => {
      const text = defaultText(row);
      return [`\`--${flag}\``, `\`${variableOf(flag)}\``, text && `\`${text}\``, row.meaning];
    }),
  );
});

test('the messages of the README are written so in the source', () => {
  // A value is another each time.
  const normal = (text: string) =>
    text.replaceAll(/[0-9]+|application\/json/g, '#').replaceAll(/"[^"\n]*"/g, '"#"');
  const source = globSync(fileURLToPath(new URL('../../src/**/*.ts', import.meta.url)))
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n')
    // What is wrong with a field begins with its name.
    .replaceAll(/invalid\('([^']+)',\s*['`]/g, '$1 ')
    .replaceAll(/\$\{(?:[^{}]|\{[^}]*\})*\}/g, '0');
  const known = normal(source);
  const messages = tableOf('messages').rows.flatMap(([first = '']) =>
    [...first.matchAll(/`([^`]+)`/g)].map(([, message = '']) => message),
  );
  assert.ok(messages.length > 20);
  assert.deepEqual(
    messages.filter((message) => !known.includes(normal(message))),
    [],
  );
});
