import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fullUsers, userFilters, userQuery } from '../../src/conformance/fixture.ts';
import { nestedKinds } from '../../src/conformance/kinds.ts';
import { changeTypes } from '../../src/domain/change.ts';
import { bodiesOf } from '../../src/domain/kinds.ts';
import { pageParameters } from '../../src/domain/list-query.ts';
import { maxId, nameOf, type RecordKind, recordKinds } from '../../src/domain/record.ts';
import { parseEntityTags } from '../../src/http/conditional.ts';
import { show } from '../domain/refuses.ts';
import { checkValue, findParameter, openApi, operations, queryParameters, resolve } from '../kit/openapi.ts';

/** Texts at the limits of the fields, filters and sorts of records. */
const texts: readonly string[] = [
  ...['', ' ', ' Ada ', '\u00a0\u3000', '\ufeff', 'a\u2028b', 'a\xa0', '%', 'null', 'x'.repeat(100_000)],
  ...['a\0', 'a\tb', 'a\nb', 'a\r\n', 'a\x7f', 'a\x9f'],
  ...['a', 'Admin', '1a', 'a b', 'admin\n', 'a_-1', `a${'_'.repeat(49)}`, `a${'_'.repeat(50)}`],
  ...['0', '1', '01', '1,2', '1,', '1, 2', String(maxId + 1), `${'7,'.repeat(99)}7`, `${'7,'.repeat(100)}7`],
  ...['age', ',', 'id,', '+id', '--id', 'id ,name'],
];
const others: readonly unknown[] = [null, true, -1, 0, 1, 1.5, maxId, maxId + 1, [], ['a'], {}];

/** A kind of record in the document. */
interface Described {
  readonly kind: RecordKind;
  /** The path of the collection. */
  readonly all: string;
  /** The ids in the path of a record. */
  readonly ids: Readonly<Record<string, number>>;
  /** A draft with all fields. */
  readonly draft: object;
  readonly filters: readonly string[];
  /** Parses a query as a client writes it. */
  readonly query: (text: string) => unknown;
}

const users: Described = {
  ...{ kind: 'users', all: '/users', ids: { id: 1 }, draft: fullUsers[0] },
  ...{ filters: Object.keys(userFilters), query: userQuery },
};
const nested = nestedKinds.map(({ kind, draft, text, query }): Described => {
  return { kind, all: `/users/{id}/${kind}`, ids: { id: 1, userId: 1 }, draft, filters: [text], query };
});

describe('a schema accepts the same values as the service', () => {
  for (const { kind, all, ids, draft, filters, query } of [users, ...nested]) {
    const record = schemaOf(kind);
    const bodies = bodiesOf[kind];
    for (const [schema, parse] of [
      [`${record}Draft`, bodies.parseDraft],
      [`${record}Patch`, bodies.parsePatch],
      [`${record}Replacement`, (body: unknown) => bodies.parseReplacement(body, ids)],
    ] as const) {
      const pointer = ['components', 'schemas', schema];
      for (const field of Object.keys(draft)) {
        it(`${schema}: ${field}`, () => {
          const property = Object(openApi.components.schemas[schema]).properties?.[field];
          assert.ok(property, `the schema ${schema} has no field ${field}`);
          const values = [undefined, ...texts, ...others, ...limitsOf(property)];
          const given = values.map((value) => JSON.parse(JSON.stringify({ ...draft, [field]: value })));
          compare(pointer, parse, given);
        });
      }

      it(`${schema}: all fields, none, ids, unknown fields, and other values than objects`, () => {
        const wrong = [
          { ...draft, nick: 'a' },
          { ...draft, version: 1 },
        ];
        compare(pointer, parse, [draft, {}, { ...draft, ...ids }, ...wrong, [draft], 'a', ...others]);
        // checkValue rejects unknown fields even if the document does not.
        assert.equal(Object(openApi.components.schemas[schema]).unevaluatedProperties, false);
      });
    }

    it(`${record}: all fields`, () =>
      assert.deepEqual(checkValue(['components', 'schemas', record], { ...ids, ...draft }), []));

    const list = operations().get(`GET ${all}`);
    it(`GET ${all}: all parameters`, () =>
      assert.deepEqual(queryParameters(list).sort(), [...filters, ...pageParameters].sort()));

    const fields = ['id', ...Object.keys(draft)];
    const sorts = [fields.join(), ...fields.flatMap((a) => [a, `-${a}`, `-${a},id`, `${a},-${a}`, `${a}d`])];
    for (const name of ['sort', ...filters]) {
      it(`GET ${all}: ${name}`, () => {
        const { pointer, schema } = findParameter(list, name);
        const parse = (value: unknown) => query(`${new URLSearchParams({ [name]: String(value) })}`);
        compare(pointer, parse, [...texts, ...sorts, ...limitsOf(schema)]);
      });
    }
  }

  it('ChangeEvent: the types of changes and the records of all kinds', () => {
    const { ChangeType, ChangeEvent } = Object(openApi.components.schemas);
    assert.deepEqual(ChangeType.enum, changeTypes);
    const records = recordKinds.map((kind) => ({ $ref: `#/components/schemas/${schemaOf(kind)}` }));
    assert.deepEqual(ChangeEvent.properties.data.oneOf, records);
  });

  it('If-Match', () => {
    const parse = (value: unknown) => assert.ok(parseEntityTags(String(value)));
    const one = ['*', '"1"', 'W/"1"', '""', '"\xe9"', '1', '', '"a b"'];
    const several = ['"1", "2"', '"1","2"', ',"1",,', ',', '"1" "2"', '*, "1"'];
    compare(['components', 'parameters', 'IfMatch', 'schema'], parse, [...one, ...several]);
  });
});

/** The name of the schema of a record. */
function schemaOf(kind: RecordKind): string {
  return nameOf(kind).replace(/^./, (letter) => letter.toUpperCase());
}

/** The longest texts, the lowest and the highest numbers that a schema accepts, and the next ones beyond. */
function limitsOf(schema: object): unknown[] {
  const { maxLength, minimum, maximum } = withTargets(schema);
  const lengths = typeof maxLength === 'number' ? [maxLength, maxLength + 1] : [];
  const bounds = [minimum, maximum].filter((bound) => typeof bound === 'number');
  return [
    ...lengths.flatMap((length) => ['x'.repeat(length), '😀'.repeat(length)]),
    ...bounds.flatMap((bound) => [bound - 1, bound, bound + 1]),
  ];
}

/** A schema with the keywords of the schemas that it refers to. */
function withTargets(schema: object): Readonly<Record<string, unknown>> {
  if (!('$ref' in schema)) return { ...schema };
  const { $ref, ...beside } = schema;
  return { ...withTargets(resolve({ $ref: String($ref) })), ...beside };
}

function compare(pointer: readonly string[], parse: (value: unknown) => unknown, values: readonly unknown[]) {
  for (const value of values) {
    const problems = checkValue(pointer, value);
    const isTaken = takes(parse, value);
    const message = `the service ${isTaken ? 'takes' : 'refuses'} ${show(value)}, and the schema: ${problems}`;
    assert.equal(problems.length === 0, isTaken, message);
  }
}

function takes(parse: (value: unknown) => unknown, value: unknown): boolean {
  try {
    parse(value);
    return true;
  } catch {
    return false;
  }
}
