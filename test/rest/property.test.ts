import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Chance } from '../kit/generate.ts';
import { type Answer, errorOf, send } from '../support/client.ts';
import { startService } from '../support/service.ts';

// Generated bodies are compared with a second, independent implementation of the rules. A failure prints the
// number of the body. The same seed runs every time.

const seed = 1;
const bodies = 200;
const headers = { 'content-type': 'application/json' };

type Fields = Readonly<Record<string, unknown>>;

function isText(value: unknown, max: number, controls: RegExp): value is string {
  return (
    typeof value === 'string' && value.isWellFormed() && [...value].length <= max && !controls.test(value)
  );
}
const isTitle = (value: unknown) => isText(value, 200, /\p{Cc}/u) && /\S/.test(value);
const isBody = (value: unknown) => isText(value, 10_000, /(?![\t\n])\p{Cc}/u);
const isRole = (value: unknown) =>
  typeof value === 'string' && /^[a-z][a-z0-9_-]*$/.test(value) && value.length <= 50;

function hasOnly(fields: Fields, known: readonly string[]): boolean {
  return Object.keys(fields).every((name) => known.includes(name));
}
function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const targets: readonly {
  readonly line: string;
  readonly accepts: (fields: Fields) => boolean;
  readonly result: (fields: Fields, before: Fields) => Fields;
  readonly shape: readonly string[];
}[] = [
  {
    line: 'POST /users',
    shape: ['name', 'role'],
    accepts: (f) =>
      hasOnly(f, ['name', 'role']) && isTitle(f['name']) && (!('role' in f) || isRole(f['role'])),
    result: (f) => f,
  },
  {
    line: 'PUT /users/1',
    shape: ['name', 'role', 'id'],
    accepts: (f) =>
      hasOnly(f, ['id', 'name', 'role']) &&
      (!('id' in f) || f['id'] === 1) &&
      isTitle(f['name']) &&
      (!('role' in f) || isRole(f['role'])),
    result: (f) => ({ ...f, id: 1 }),
  },
  {
    line: 'PATCH /users/1',
    shape: ['name', 'role'],
    accepts: (f) =>
      hasOnly(f, ['name', 'role']) &&
      (!('name' in f) || isTitle(f['name'])) &&
      (!('role' in f) || f['role'] === null || isRole(f['role'])),
    result(f, before) {
      const { role, ...merged } = { ...before, ...f } as Fields;
      return typeof role === 'string' ? { ...merged, role } : merged;
    },
  },
  {
    line: 'POST /users/1/posts',
    shape: ['title', 'body'],
    accepts: (f) =>
      hasOnly(f, ['title', 'body']) && isTitle(f['title']) && (!('body' in f) || isBody(f['body'])),
    result: (f) => ({ body: '', ...f, userId: 1 }),
  },
];

for (const { line, shape, accepts, result } of targets) {
  test(`${line} accepts exactly the valid bodies and stores them unchanged`, async (t) => {
    const { http } = await startService(t);
    let user = (await send(http, 'POST /users', { json: { name: 'Ann', role: 'admin' } })).json;
    const pristine = Reflect.ownKeys(Object.prototype);
    const chance = new Chance(seed);
    const verdicts = { taken: 0, refused: 0 };
    for (let i = 0; i < bodies; i += 1) {
      const value = chance.below(8) === 0 ? chance.json() : plausible(chance, shape);
      const answer = await send(http, line, { body: JSON.stringify(value), headers });
      const details = `body ${i}: ${JSON.stringify(value)} got ${answer.status} ${answer.text}`;
      if (isObject(value) && accepts(value)) {
        verdicts.taken += 1;
        assert.ok(answer.status === 200 || answer.status === 201, details);
        const stored = await readBack(http, line, answer);
        const expected = result(value, isObject(user) ? user : {});
        assert.deepEqual(stored, { ...expected, id: stored['id'] }, details);
        if (line.endsWith(' /users/1')) user = stored;
      } else {
        verdicts.refused += 1;
        assert.equal(answer.status, 400, details);
        assert.notEqual(errorOf(answer), '');
        assert.deepEqual((await send(http, 'GET /users/1')).json, user, details);
      }
    }
    assert.ok(Math.min(verdicts.taken, verdicts.refused) > bodies / 20, JSON.stringify(verdicts));
    assert.deepEqual(Reflect.ownKeys(Object.prototype), pristine);
  });
}

/** An object that is usually similar to a valid body. */
function plausible(chance: Chance, shape: readonly string[]): unknown {
  const fields = shape.filter(() => chance.below(4) > 0);
  if (chance.below(12) === 0) fields.push(chance.pick(['__proto__', 'constructor', 'toString', 'Name']));
  return Object.fromEntries(
    fields.map((name) => {
      if (chance.below(15) === 0) return [name, chance.json(1)];
      if (name === 'id') return [name, chance.pick([1, 1, 1, 2, '1'])];
      if (name === 'role')
        return [name, chance.pick(['admin', 'dev', 'a-b_c', 'x'.repeat(50), 'x'.repeat(51), 'A', null])];
      return [name, chance.text()];
    }),
  );
}

async function readBack(http: string, line: string, answer: Answer): Promise<Fields> {
  const { json } = answer;
  assert.ok(isObject(json));
  if (!line.endsWith('/posts')) {
    const stored = (await send(http, `GET /users/${json['id']}`)).json;
    assert.deepEqual(stored, json, 'the response equals the stored record');
    return json;
  }
  const { json: latest } = await send(http, 'GET /users/1/posts?sort=-id&limit=1');
  assert.deepEqual(latest, [json]);
  return json;
}
