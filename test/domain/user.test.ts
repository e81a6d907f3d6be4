import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fullUsers } from '../../src/conformance/fixture.ts';
import { maxId, parseId } from '../../src/domain/record.ts';
import { parseRole, userBodies } from '../../src/domain/user.ts';
import { refuses, show } from './refuses.ts';

describe('parseId', () => {
  for (const [value, id] of [
    ['1', 1],
    ['42', 42],
    ['2147483647', maxId],
    [1, 1],
    [maxId, maxId],
  ] as const) {
    it(`reads ${show(value)}`, () => assert.equal(parseId('user', value), id));
  }

  for (const value of ['', '0', '-1', '01', '1.0', '1e3', ' 1', '1\n', '١', 'abc', 0, -1, 1.5, Number.NaN]) {
    it(`rejects ${show(value)}`, () => refuses(() => parseId('user', value), 'id'));
  }

  const large = ['2147483648', '9007199254740993', `1${'0'.repeat(400)}`];
  for (const value of [...large, maxId + 1, Number.POSITIVE_INFINITY]) {
    it(`reports the user ${show(value)} as not found`, () =>
      refuses(() => parseId('user', value), 'no user', 'not-found'));
  }
});

describe('parseRole', () => {
  for (const role of ['a', 'admin', 'a1', 'a-b_c', 'z9-', 'a_', 'x'.repeat(50)]) {
    it(`accepts ${show(role)}`, () => assert.equal(parseRole(role), role));
  }
  for (const role of ['', 'A', '1a', 'a b', 'a\n', ' a', 'é', 'x'.repeat(51), 1, null, ['a']]) {
    it(`rejects ${show(role)}`, () => refuses(() => parseRole(role), 'role'));
  }
});

/** Bodies that every operation on users rejects, with the wrong field. */
const badBodies: readonly (readonly [body: unknown, culprit: string])[] = [
  [undefined, 'the body'],
  [null, 'the body'],
  ['Ada', 'the body'],
  [[], 'the body'],
  [{ name: 1 }, 'name'],
  [{ name: null }, 'name'],
  [{ name: ' ' }, 'name'],
  [{ name: 'a\nb' }, 'name'],
  [{ name: 'x'.repeat(201) }, 'name'],
  [{ name: 'Ada', role: 'Admin' }, 'role'],
  [{ name: 'Ada', role: 1 }, 'role'],
  [{ name: 'Ada', version: 1 }, '"version"'],
  [{ name: 'Ada', Name: 'Ada' }, '"Name"'],
  [{ name: 'Ada', 'a"\n': 1 }, '"a\\"\\n"'],
  [JSON.parse('{"name":"Ada","__proto__":{"role":"admin"}}'), '"__proto__"'],
  [{ name: 'Ada', constructor: {} }, '"constructor"'],
];

/** Bodies that only operations with required fields reject. */
const incompleteBodies: typeof badBodies = [
  [{}, 'name'],
  [{ role: 'admin' }, 'name'],
  [{ name: undefined }, 'name'],
  [{ name: 'Ada', role: null }, 'role'],
];

describe('the parser of a draft', () => {
  for (const [body, draft] of [
    [{ name: 'Ada' }, { name: 'Ada' }],
    [
      { name: 'Ada', role: 'admin' },
      { name: 'Ada', role: 'admin' },
    ],
    [
      { role: 'admin', name: 'Ada' },
      { name: 'Ada', role: 'admin' },
    ],
    [{ name: '😀'.repeat(200) }, { name: '😀'.repeat(200) }],
    [JSON.parse('{"name":"Eve","name":"Ada"}'), { name: 'Ada' }],
    [Object.assign(Object.create(null), { name: 'Ada' }), { name: 'Ada' }],
  ]) {
    it(`reads ${show(body)}`, () => assert.deepEqual(userBodies.parseDraft(body), draft));
  }

  const withId = [{ id: 1, name: 'Ada' }, '"id"'] as const;
  for (const [body, culprit] of [...badBodies, ...incompleteBodies, withId]) {
    it(`rejects ${culprit} in ${show(body)}`, () => refuses(() => userBodies.parseDraft(body), culprit));
  }

  it('does not change Object.prototype', () => {
    refuses(
      () => userBodies.parseDraft(JSON.parse('{"name":"Ada","__proto__":{"admin":true}}')),
      '"__proto__"',
    );
    assert.equal('admin' in {}, false);
  });

  it('ignores a name that the prototype has', () => {
    refuses(() => userBodies.parseDraft(JSON.parse('{"__proto__":{"name":"Ada"}}')), '"__proto__"');
  });
});

/** The patch that removes each optional field. */
const removed = Object.fromEntries(
  Object.keys(fullUsers[0]).flatMap((field) => (field === 'name' ? [] : [[field, null]])),
);

describe('the parser of a replacement', () => {
  for (const [body, patch] of [
    [{ name: 'Ada' }, { ...removed, name: 'Ada' }],
    [
      { id: 7, name: 'Ada' },
      { ...removed, name: 'Ada' },
    ],
    [
      { id: 7, name: 'Ada', role: 'admin' },
      { ...removed, name: 'Ada', role: 'admin' },
    ],
  ]) {
    it(`reads ${show(body)}`, () => assert.deepEqual(userBodies.parseReplacement(body, { id: 7 }), patch));
  }

  for (const [body, culprit] of [
    ...badBodies,
    ...incompleteBodies,
    [{ id: 8, name: 'Ada' }, 'id'] as const,
    [{ id: '7', name: 'Ada' }, 'id'] as const,
    [{ id: null, name: 'Ada' }, 'id'] as const,
    [{ id: 7.5, name: 'Ada' }, 'id'] as const,
  ]) {
    it(`rejects ${culprit} in ${show(body)}`, () =>
      refuses(() => userBodies.parseReplacement(body, { id: 7 }), culprit));
  }
});

describe('the parser of a patch', () => {
  for (const [body, patch] of [
    [{}, {}],
    [{ name: 'Ada' }, { name: 'Ada' }],
    [{ role: 'admin' }, { role: 'admin' }],
    [{ role: null }, { role: null }],
    [
      { name: 'Ada', role: null },
      { name: 'Ada', role: null },
    ],
    [{ name: undefined }, {}],
  ]) {
    it(`reads ${show(body)}`, () => assert.deepEqual(userBodies.parsePatch(body), patch));
  }

  for (const [body, culprit] of [...badBodies, [{ id: 1 }, '"id"'] as const]) {
    it(`rejects ${culprit} in ${show(body)}`, () => refuses(() => userBodies.parsePatch(body), culprit));
  }
});
