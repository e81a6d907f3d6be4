import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { defaultText, variableOf } from '../../src/commands/settings.ts';
import { optionRows } from '../../src/config.ts';
import { errorKinds } from '../../src/domain/errors.ts';
import { errorStatuses as grpcStatuses } from '../../src/grpc/errors.ts';
import type { RequestListenerOptions } from '../../src/rest/app.ts';
import { errorStatuses } from '../../src/rest/errors.ts';
import { type RouteAccess, routes } from '../../src/rest/routes.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { cannotConnect, overloaded, toDomainError } from '../../src/storage/postgres/errors.ts';
import { compareTable, tableOf, tablesOf } from '../kit/markdown.ts';
import { operations, queryParameters } from '../kit/openapi.ts';

// The tables of the documentation, compared with the source.

const keys: Readonly<Record<RouteAccess, string>> = {
  open: 'open',
  key: 'always',
  read: '`auth` = `all`',
  write: '`auth` ≠ `none`',
  metrics: '`auth` ≠ `none`',
};

test('the routes of the README are those of the source', () => {
  const definitions = routes({
    repository: createMemoryStore(),
    requirePreconditions: false,
    refusal: () => undefined,
    renderMetrics: () => '',
  });
  compareTable(
    'routes',
    definitions.map(({ pattern, access }) => [`\`${pattern}\``, undefined, keys[access]]),
  );
});

test('the routes of the README have the query parameters of the OpenAPI document', () => {
  for (const [route, text = ''] of tableOf('routes').rows) {
    const missing = queryParameters(operations().get(String(route).replaceAll('`', ''))).filter(
      (name) => !text.includes(`\`${name}\``),
    );
    assert.deepEqual(missing, [], `${route} does not list them`);
  }
});

test('the errors of the README are those of the source, with the statuses of both APIs', () => {
  const kinds = errorKinds.toSorted((a, b) => errorStatuses[a] - errorStatuses[b]);
  compareTable(
    'errors',
    kinds.map((kind) => [`\`${kind}\``, String(errorStatuses[kind]), status[grpcStatuses[kind]], undefined]),
  );
});

const optionTable = optionRows.map(([flag, row]) => {
  const text = defaultText(row);
  return [`\`--${flag}\``, `\`${variableOf(flag)}\``, text && `\`${text}\``, row.meaning];
});

test('the options of the command line are those of the source', () => compareTable('options', optionTable));

// The options of the library that both a listener and a service have.
const listenerOptions: readonly string[] = [
  'apiKeys',
  'auth',
  'publicDir',
  'cors',
  'allowedHosts',
  'utilityRoutes',
  'maxFollowers',
  'requirePreconditions',
] satisfies (keyof RequestListenerOptions)[];

test('the options of the library are those of the source', () => {
  const words = new Map([
    ['on', 'true'],
    ['off', 'false'],
  ]);
  compareTable(
    'library options',
    optionRows.flatMap(([, row]) => {
      const { path, meaning } = row;
      if (path === undefined) return [];
      const written = defaultText(row);
      // A toggle is a boolean in the library. A choice of on and off is not.
      const text = row.kind === 'on|off' ? (words.get(written) ?? written) : written;
      const isBoth = listenerOptions.includes(path) || path.startsWith('limits.');
      const user = isBoth ? 'both' : '`createService`';
      return [[`\`${path}\``, text && `\`${text}\``, meaning, user, undefined]];
    }),
  );
});

test('the main options in the README are options of the source', () => {
  const shown = tableOf('main options').rows.map(([flag]) => flag);
  compareTable(
    'main options',
    shown.map((flag) => optionTable.find(([known]) => known === flag) ?? [flag, 'is not an option']),
  );
});

const messages = tablesOf('messages').flatMap(({ rows }) =>
  rows.flatMap(([first = '']) => [...first.matchAll(/`([^`]+)`/g)].map(([, message = '']) => message)),
);

test('each error message in the documentation is a complete message of the source', () => {
  const token = /\/\*[\s\S]*?\*\/|\/\/.*|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g;
  const known = globSync(fileURLToPath(new URL('../../src/**/*.ts', import.meta.url))).flatMap((file) => {
    const text = readFileSync(file, 'utf8')
      // Two parts of one message, and a message that begins with the name of its field.
      .replaceAll(/(['`])\s*\+\s*\1/g, '')
      .replaceAll(/invalid\('([^']+)',\s*(['`])/g, '$2$1 ');
    return [...text.matchAll(token)].map(
      ([, single, double, template]) => single ?? double ?? template ?? '',
    );
  });
  // A placeholder stands for any value. A text that is almost only placeholders would match any message.
  const placeholder = /\$\{(?:[^{}]|\{[^}]*\})*\}/;
  const patterns = known
    .map((text) => text.replaceAll("\\'", "'").replace(/\\n$/, '').split(placeholder))
    .filter((parts) => parts.join('').length >= 8)
    .map(
      (parts) =>
        new RegExp(`^${parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`),
    );
  assert.deepEqual(
    messages.filter((message) => !patterns.some((pattern) => pattern.test(message))),
    [],
  );
  assert.ok(messages.length > 30);
});

test('the documentation contains every message that PostgreSQL errors are converted to', () => {
  // One of each class in https://www.postgresql.org/docs/current/errcodes-appendix.html that has a message.
  const states = ['08006', '25006', '40001', '53300', '55P03', '57014', '57P01'];
  const errors = states.map((code) =>
    toDomainError(Object.assign(new Error(code), { severity: 'ERROR', code }), 'final'),
  );
  const expected = [...errors, cannotConnect(undefined), overloaded()].map(({ message }) => message);
  assert.deepEqual(
    expected.filter((message) => !messages.includes(message)),
    [],
  );
});
