import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { status } from '@grpc/grpc-js';
import { defaultText, variableOf } from '../../src/commands/settings.ts';
import { type Option, optionRows } from '../../src/config.ts';
import { testedKinds } from '../../src/conformance/kinds.ts';
import { errorKinds } from '../../src/domain/errors.ts';
import { errorStatuses as grpcStatuses } from '../../src/grpc/errors.ts';
import type { RequestListenerOptions } from '../../src/rest/app.ts';
import { errorStatuses } from '../../src/rest/errors.ts';
import { Followers } from '../../src/rest/followers.ts';
import { type RouteAccess, routes } from '../../src/rest/routes.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { openStore, type StoreOptions, schemeOf, storeSchemes } from '../../src/storage/open.ts';
import { otherOptionTypes, storeNumbers } from '../../src/storage/options.ts';
import { cannotConnect, meaningOf, overloaded } from '../../src/storage/postgres/errors.ts';
import { compareTable, documents, tableOf, tablesOf } from '../kit/markdown.ts';
import { operations, queryParameters, resolve } from '../kit/openapi.ts';

// The tables of the documentation, compared with the source.

const keys: Readonly<Record<RouteAccess, string>> = {
  open: 'open',
  key: 'always',
  read: '`all`',
  write: '`writes`',
  metrics: '`writes`',
};

test('the routes of the README are those of the source', () => {
  const repository = createMemoryStore();
  const none = () => undefined;
  const definitions = routes({
    repository,
    followers: repository.changes && new Followers(repository.changes, 0, none),
    requirePreconditions: false,
    unreadyReason: none,
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

/** The fields of a body that the row of its route must name. */
const namedFields: Readonly<Record<string, (schema: BodySchema) => readonly string[]>> = {
  POST: ({ properties = {} }) => Object.keys(properties),
  // Those that a replacement removes if they are absent. The ids may only repeat those of the path.
  PUT: ({ properties = {}, required = [] }) =>
    Object.keys(properties).filter((field) => !/id$/i.test(field) && !required.includes(field)),
  PATCH: ({ properties = {} }) =>
    Object.keys(properties).filter((field) => properties[field]?.type?.includes('null')),
};

interface BodySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string | readonly string[] }>>;
  readonly required?: readonly string[];
}

test('the routes of the README name the fields of their bodies', () => {
  for (const [route, text = ''] of tableOf('routes').rows) {
    const pattern = String(route).replaceAll('`', '');
    const { schema = {} } = operations().get(pattern)?.requestBody?.content['application/json'] ?? {};
    const fields = namedFields[pattern.split(' ')[0] ?? '']?.(resolve<BodySchema>(schema)) ?? [];
    assert.deepEqual(
      fields.filter((field) => !text.includes(`\`${field}\``)),
      [],
      `${route} does not name them`,
    );
  }
});

test('the details of the HTTP API name the fields that each list can be sorted by', () => {
  const list = new Intl.ListFormat('en-GB');
  for (const { kind, fields } of testedKinds) {
    const names = list.format(Object.keys(fields).map((field) => `\`${field}\``));
    assert.ok(documents.get('src/rest/README.md')?.includes(`${names} of ${kind}`), `${names} of ${kind}`);
  }
});

test('the errors of the README are those of the source, with the statuses of both APIs', () => {
  const kinds = errorKinds.toSorted((a, b) => errorStatuses[a] - errorStatuses[b]);
  compareTable(
    'errors',
    kinds.map((kind) => [`\`${kind}\``, String(errorStatuses[kind]), status[grpcStatuses[kind]], undefined]),
  );
});

/** The range of a number, or a list of all values. */
function valuesText({ kind, range, orOff, values }: Option): string {
  if (range !== undefined) {
    const [min, max] = range.map((number) => number.toLocaleString('en'));
    return `${min} to ${max}${orOff ? ', off' : ''}`;
  }
  return (kind === 'on|off' ? ['on', 'off'] : (values ?? [])).join(', ');
}

const optionTable = optionRows.map(([flag, row]) => {
  const text = defaultText(row);
  return [`\`--${flag}\``, `\`${variableOf(flag)}\``, text && `\`${text}\``, row.meaning];
});

test('the options of the command line are those of the source, with their values', () =>
  compareTable(
    'options',
    optionTable.map((cells, i) => {
      const row = optionRows[i]?.[1];
      assert.ok(row);
      return [...cells.slice(0, 3), valuesText(row), ...cells.slice(3)];
    }),
  ));

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

test('the stores in the README are those of the source', () => {
  const listed = tableOf('stores').rows.map(([url = '']) => schemeOf(url.replaceAll('`', ''))?.form);
  assert.deepEqual(listed.sort(), storeSchemes.map(({ form }) => form).sort());
});

test('src/embedding.md lists each value that the package exports', async () => {
  const [, cell = ''] = /^\| `users-service` \| ([^|]*)/m.exec(documents.get('src/embedding.md') ?? '') ?? [];
  const listed = [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name);
  assert.deepEqual(listed.sort(), Object.keys(await import('../../src/index.ts')).sort());
});

const sourceOf = (path: string) => readFileSync(new URL(`../../src/${path}.ts`, import.meta.url), 'utf8');
test('the comments on the numbers of ServiceOptions, as editors show them, have their defaults and units', () => {
  const text = ['service/service', 'rest/app', 'http/server', 'http/request', 'grpc/app']
    .map(sourceOf)
    .join('');
  const comments = [
    ...text.replaceAll(/(?<=\d),(?=\d)/g, '').matchAll(/\/\*\* (.*) \*\/\n {2}readonly (\w+)\??:/g),
  ];
  const wrong = optionRows.filter(([, { path, range, default: preset }]) => {
    const name = path?.split('.').at(-1);
    const unit = name?.endsWith('Ms') ? ', in ms' : '';
    const isRight = ([, comment = '', field = '']: RegExpExecArray) =>
      field === name && comment.includes(unit) && comment.endsWith(`Default: ${preset}.`);
    return name !== undefined && range !== undefined && !comments.some(isRight);
  });
  assert.deepEqual(wrong, []);
});

test('the documentation lists the options of openStore with their defaults and ranges', async () => {
  const files = ['options', 'sqlite/store', 'postgres/store'].map((name) => sourceOf(`storage/${name}`));
  const known = files.flatMap((text) =>
    [...text.matchAll(/^export interface \w+StoreOptions [^{]*\{\n([\s\S]*?)^\}/gm)].flatMap(
      ([, body = '']) => [...body.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, name = '']) => name),
    ),
  );
  const { rows } = tableOf('store options');
  const listed = rows.map(([name = '']) => name.replaceAll('`', ''));
  assert.deepEqual(listed.toSorted(), [...new Set(known)].sort());
  assert.deepEqual(listed.toSorted(), [...otherOptionTypes.keys(), ...Object.keys(storeNumbers)].sort());
  const formatted = (number: number) => number.toLocaleString('en');
  const numbers = new Map(Object.entries<readonly number[]>(storeNumbers));
  for (const [i, [, shown = '', range = '']] of rows.entries()) {
    const name = listed[i] ?? '';
    const [preset, ...limits] = numbers.get(name) ?? [];
    assert.equal(range, limits.map(formatted).join(' to '), `the range of ${name}`);
    if (preset === undefined) continue;
    assert.equal(shown, formatted(preset), `the default of ${name}`);
    // The options are checked before the store is opened, those of other stores too.
    for (const url of ['memory:', 'sqlite:/nowhere', 'postgres://a@b/c']) {
      for (const value of [Number(limits[0]) - 1, Number(limits[1]) + 1]) {
        const options: StoreOptions = { [name]: value };
        const message = `${name} must be a whole number from ${limits.join(' to ')}, not ${value}`;
        await assert.rejects(openStore(url, options), { name: 'RangeError', message });
      }
    }
  }
});

test('the documentation has the numbers of connections to PostgreSQL', () => {
  const numberIn = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1]);
  const pool = sourceOf('storage/postgres/pool');
  const [calls] = storeNumbers.poolSize;
  const feed = numberIn(pool, /^export const feedConnections = (\d+);/m);
  const pings = numberIn(pool, /^ {4}const pings = new ConnectionQueue\((\d+),/m);
  const { rows } = tableOf('connections');
  const numbers = [calls, feed, pings].map((number) => [number, number]);
  const shown = rows.map((cells) => cells.slice(1).map(Number));
  assert.deepEqual(shown, numbers);
  const text = documents.get('src/storage/README.md') ?? '';
  const sum = calls + feed + pings;
  assert.ok(text.includes(`copies × workers × ${sum} + `), String(sum));
  assert.ok(text.includes(`count ${2 * sum} instead of ${sum},`));
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
  const unexplained = messages.filter((message) => !patterns.some((pattern) => pattern.test(message)));
  assert.deepEqual(unexplained, []);
  assert.ok(messages.length > 30);
});

test('the documentation contains every message that PostgreSQL errors are converted to', () => {
  // One of each class in https://www.postgresql.org/docs/current/errcodes-appendix.html that has a message.
  const states = ['08006', '25006', '40001', '53300', '55P03', '57014', '57P01'];
  const errors = states.map((code) => {
    const error = Object.assign(new Error(code), { severity: 'ERROR', code });
    return meaningOf(error).error(error);
  });
  const expected = [...errors, cannotConnect(undefined), overloaded()].map(({ message }) => message);
  const missing = expected.filter((message) => !messages.includes(message));
  assert.deepEqual(missing, []);
});
