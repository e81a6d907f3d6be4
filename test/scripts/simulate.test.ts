import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Change, Entry, FaultEntry, Row } from '../../scripts/simulate/history.ts';
import { judge, story } from '../../scripts/simulate/model.ts';
import { drawPlan } from '../../scripts/simulate/plan.ts';

// The model of `npm run simulate`, on histories written by hand.

type Given = Partial<Omit<Entry, 'start' | 'end' | 'kind' | 'record'>>;

/**
 * Requests one after another, unless `at` gives a request other times. The feed has the versions and deletions that
 * the responses show first, and those that a test adds.
 */
class Writer {
  readonly entries: Entry[] = [];
  readonly changes: Change[] = [];

  user(kind: Entry['kind'], given: Given, at?: readonly [number, number]): this {
    return this.#add('user', kind, given, at);
  }

  post(kind: Entry['kind'], given: Given, at?: readonly [number, number]): this {
    return this.#add('post', kind, given, at);
  }

  /** Adds a change to the feed. */
  change(type: string, version: number, data: Row): this {
    this.changes.push({ id: String(this.changes.length + 1), type, version, data });
    return this;
  }

  #add(record: 'user' | 'post', kind: Entry['kind'], given: Given, at?: readonly [number, number]): this {
    const step = this.entries.length;
    const [start, end] = at ?? [step * 10, step * 10 + 5];
    this.entries.push({ step, client: 0, process: 0, record, kind, start, end, ...given });
    const { status, row, version = 0, sent } = given;
    const own = this.changes.filter(({ type, data }) => {
      return type.startsWith(record) && data.id === (row?.id ?? given.post ?? given.user);
    });
    const last = own.at(-1);
    if (sent && row && version === own.length + 1) {
      this.change(`${record}.${version === 1 ? 'created' : 'updated'}`, version, row);
    }
    if (status === 204 && last && !last.type.endsWith('deleted')) {
      this.change(`${record}.deleted`, last.version, last.data);
    }
    return this;
  }
}

const ann = { id: 1, name: 'ann' };
const created = () =>
  new Writer().user('create', { sent: { name: 'ann' }, status: 201, version: 1, row: ann });
const ben = { id: 2, name: 'ben', role: 'admin' };
const bensCreation = { sent: { name: 'ben', role: 'admin' }, status: 201, version: 1, row: ben } as const;
const bob = { id: 1, name: 'bob' };
const note = { id: 1, userId: 1, title: 't', body: '' };
const guest = { ...ann, role: 'guest' };
const seesAnn = { user: 1, status: 200, version: 1, row: ann } as const;
const gone = { user: 1, status: 204 } as const;
const posted = { user: 1, sent: { title: 't', body: '' }, status: 201, version: 1, row: note } as const;
/** A change of the name of ann or ben. */
const named = (row: Row, name: string) =>
  ({ user: Number(row['id']), sent: { name }, status: 200, version: 2, row: { ...row, name } }) as const;
const renamed = named(ann, 'bob');
const ifMatch = (version: number) => ({ header: 'if-match', version }) as const;
const fault: FaultEntry = { fault: 'kill', target: 0, start: 0, end: 1_000 };

/** What a follower saw in one response. */
function read(client: number, position: number, ...changes: Change[]): Entry {
  const request = { step: 0, client, process: 0, kind: 'follow', record: 'change', position } as const;
  return { ...request, changes, start: 0, end: 100, status: 200 };
}

function rulesOf(
  { entries, changes }: Writer,
  faults: FaultEntry[] = [],
  feed = [read(0, 0, ...changes)],
): string[] {
  const { violations } = judge({ entries: [...entries, ...feed], faults });
  return [...new Set(violations.map(({ rule }) => rule))].sort();
}

const good: Readonly<Record<string, Writer>> = {
  'a life of a user': created()
    .user('get', seesAnn)
    .user('patch', { ...named(ann, 'ann'), sent: { role: 'guest' }, guard: ifMatch(1), row: guest })
    .user('replace', { user: 1, sent: { name: 'bob' }, guard: ifMatch(1), status: 412 })
    .user('call', { user: 1, status: 200, row: ann })
    .user('get', { user: 1, guard: { header: 'if-none-match', version: 2 }, status: 304, version: 2 })
    .user('delete', gone)
    .user('get', { user: 1, status: 404 })
    .user('call', { user: 1, status: 404 }),
  'a read that overlaps a write sees either value': created()
    .user('patch', renamed, [20, 60])
    .user('get', { user: 1, status: 200, version: 2, row: bob }, [30, 40])
    .user('get', seesAnn, [25, 45]),
  'two writes that overlap, of which the later one in the feed is seen first': created()
    .user('create', bensCreation)
    .user('patch', renamed, [20, 60])
    .user('patch', named(ben, 'bo'), [22, 30])
    .user('get', seesAnn, [32, 34]),
  'a creation with a key, repeated': created()
    .user('create', { ...bensCreation, key: 'k' })
    .user('create', { ...bensCreation, key: 'k', replayed: true })
    .user('create', { sent: { name: 'other' }, key: 'k', status: 422 }),
  'a list and a walk': created()
    .user('create', bensCreation)
    .user('walk', { query: { limit: 1 }, status: 200, rows: [ann], next: 'cursor' })
    .user('walk', { query: { limit: 1 }, after: ann, status: 200, rows: [ben] })
    .user('list', { query: { role: 'admin', limit: 5 }, status: 200, rows: [ben], total: 1 }),
  'posts end with their user': created()
    .post('create', posted)
    .change('post.deleted', 1, note)
    .user('delete', gone)
    .post('get', { user: 1, post: 1, status: 404 })
    .post('list', { user: 1, query: {}, status: 404 }),
};

for (const [what, history] of Object.entries(good)) {
  test(`the model accepts ${what}`, () => assert.deepEqual(rulesOf(history), []));
}

test('an unanswered write may have happened or not', () => {
  const cut = () => created().user('patch', { user: 1, sent: { name: 'bob' } });
  const old = cut().user('get', seesAnn);
  const changed = cut()
    .change('user.updated', 2, bob)
    .user('get', { user: 1, status: 200, version: 2, row: bob });
  assert.deepEqual(rulesOf(old, [fault]), []);
  assert.deepEqual(rulesOf(changed, [fault]), []);
  assert.deepEqual(rulesOf(old), ['wrong status'], 'and needs a fault as its reason');
  changed.user('get', seesAnn);
  assert.deepEqual(rulesOf(changed, [fault]), ['not linearizable'], 'but not unhappen');
});

const bad: Readonly<Record<string, readonly [rule: string, history: Writer]>> = {
  'a stale read': ['not linearizable', created().user('patch', renamed).user('get', seesAnn)],
  'a stale name over gRPC': [
    'not linearizable',
    created().user('patch', renamed).user('call', { user: 1, status: 200, row: ann }),
  ],
  'a write that was acknowledged and lost': [
    'not linearizable',
    created()
      .user('patch', renamed)
      .user('list', { query: { limit: 9 }, status: 200, rows: [ann] }),
  ],
  'two writes of one version': [
    'lost update',
    created()
      .user('patch', renamed)
      .user('patch', { ...renamed, sent: { name: 'cy' }, row: { id: 1, name: 'cy' } }),
  ],
  'a write that undoes another field': [
    'lost update',
    new Writer().user('create', { ...bensCreation, row: { ...ben, id: 1 } }).user('patch', renamed),
  ],
  'a write despite If-Match': [
    'ignored If-Match',
    created()
      .user('patch', renamed)
      .user('delete', { user: 1, guard: ifMatch(1), status: 204 }),
  ],
  'a 412 for the current version': [
    'wrong 412',
    created().user('patch', { user: 1, sent: { name: 'x' }, guard: ifMatch(1), status: 412 }),
  ],
  'a 404 for a user that nothing deleted': ['wrong 404', created().user('get', { user: 1, status: 404 })],
  'a user that was read after its deletion': [
    'not linearizable',
    created().user('delete', gone).user('get', seesAnn),
  ],
  'a post that outlives its user': [
    'value that never was',
    created().post('create', posted).user('delete', gone),
  ],
  'two deletions': ['wrong deletion', created().user('delete', gone).user('delete', gone)],
  'a key that created twice': [
    'doubled',
    created()
      .user('create', { ...bensCreation, key: 'k' })
      .user('create', { ...bensCreation, key: 'k', row: { ...ben, id: 3 } }),
  ],
  'an id given twice': [
    'id given twice',
    created().user('create', { ...bensCreation, row: { ...ben, id: 1 } }),
  ],
  'an id below an earlier one': [
    'id not rising',
    new Writer()
      .user('create', bensCreation)
      .user('create', { sent: { name: 'ann' }, status: 201, version: 1, row: ann }),
  ],
  'a row that a page skips': [
    'skipped row',
    created()
      .user('create', bensCreation)
      .user('list', { query: { limit: 9 }, status: 200, rows: [ben] }),
  ],
  'a row that a walk skips': [
    'skipped row',
    created()
      .user('create', bensCreation)
      .user('walk', { query: { limit: 1, sort: '-id' }, status: 200, rows: [ben], next: 'cursor' })
      .user('walk', { query: { limit: 1, sort: '-id' }, after: ben, status: 200, rows: [] }),
  ],
  'a row that a walk repeats': [
    'wrong order',
    created()
      .user('create', bensCreation)
      .user('walk', { query: { limit: 2 }, after: ann, status: 200, rows: [ann, ben] }),
  ],
  'a row that does not fit the filter': [
    'wrong filter',
    created().user('list', { query: { prefix: 'b', limit: 9 }, status: 200, rows: [ann] }),
  ],
  'a wrong count': [
    'wrong count',
    created().user('list', { query: { limit: 9 }, status: 200, rows: [ann], total: 2 }),
  ],
  'a page of two moments': [
    'torn page',
    created()
      .user('create', bensCreation)
      .user('patch', renamed, [30, 35])
      .user('patch', named(ben, 'cy'), [40, 45])
      .user('list', { query: { limit: 9 }, status: 200, rows: [ann, { ...ben, name: 'cy' }] }, [25, 50]),
  ],
  'a value that nothing wrote': [
    'value that never was',
    created().user('list', { query: { limit: 9 }, status: 200, rows: [{ id: 1, name: 'eve' }] }),
  ],
  'a replay of another creation': [
    'value that never was',
    created()
      .user('create', { ...bensCreation, key: 'k' })
      .user('create', { ...bensCreation, key: 'k', row: ann, replayed: true }),
  ],
  'a 304 without If-None-Match': [
    'value that never was',
    created().user('get', { user: 1, guard: ifMatch(1), status: 304, version: 1 }),
  ],
  'a 412 without a precondition': ['wrong status', created().user('get', { user: 1, status: 412 })],
  'a status that is not documented': ['wrong status', created().user('get', { user: 1, status: 500 })],
  'a refusal without a fault': ['wrong status', created().user('get', { user: 1, status: 503 })],
};

for (const [what, [rule, history]] of Object.entries(bad)) {
  test(`the model rejects ${what}`, () => {
    assert.ok(rulesOf(history).includes(rule), `${rulesOf(history)}`);
  });
}

const followed = [
  { id: '1', type: 'user.created', version: 1, data: ann },
  { id: '2', type: 'user.updated', version: 2, data: bob },
  { id: '4', type: 'user.created', version: 1, data: ben },
  { id: '5', type: 'user.deleted', version: 1, data: ben },
] as const;
const [first, second, third, fourth] = followed;

function rulesOfFeed(...feed: Entry[]): string[] {
  const writer = created()
    .user('patch', renamed)
    .user('create', bensCreation)
    .user('delete', { user: 2, status: 204 })
    .user('get', { user: 1, status: 200, version: 2, row: bob });
  return rulesOf(writer, [], feed);
}

test('the model accepts followers that see every change once, whenever they resume', () => {
  const other = [read(1, 0, first), read(1, 1), read(1, 1, second, third, fourth)];
  assert.deepEqual(rulesOfFeed(read(0, 0, ...followed), ...other), []);
});

test('the model accepts a deletion in the feed that had no response (seed 315)', () => {
  const deleted = created()
    .post('create', posted)
    .user('delete', { user: 1 })
    .change('post.deleted', 1, note)
    .change('user.deleted', 1, ann)
    .user('get', { user: 1, status: 404 });
  assert.deepEqual(rulesOf(deleted, [fault]), []);
});

test('the model accepts a creation and a change that both had no response (seeds 444, 484, 501)', () => {
  const changed = new Writer()
    .user('create', { sent: { name: 'ann' } })
    .change('user.created', 1, ann)
    .user('patch', { user: 1, sent: { name: 'bob', role: 'guest' } })
    .change('user.updated', 2, { ...bob, role: 'guest' })
    .user('list', { query: { limit: 5 }, status: 200, rows: [{ ...bob, role: 'guest' }] });
  assert.deepEqual(rulesOf(changed, [fault]), []);
  const post = { id: 1, userId: 1, title: 'u', body: '' };
  const replaced = created()
    .post('create', { user: 1, sent: { title: 't', body: 'b' } })
    .change('post.created', 1, { ...post, title: 't', body: 'b' })
    .post('replace', { user: 1, post: 1, sent: { title: 'u', body: '' } })
    .change('post.updated', 2, post)
    .post('get', { user: 1, post: 1, status: 200, version: 2, row: post });
  assert.deepEqual(rulesOf(replaced, [fault]), []);
});

test('the model rejects a deletion that the feed shows before a write that ended before any deletion began', () => {
  const early = created()
    .post('create', posted)
    .change('post.deleted', 1, note)
    .user('patch', renamed)
    .user('delete', gone)
    .post('get', { user: 1, post: 1, status: 404 });
  assert.deepEqual(rulesOf(early), ['reordered feed']);
});

test('the model accepts a last change in the feed that had no response (seed 520)', () => {
  const late = created()
    .user('patch', { user: 1, sent: { name: 'bob' } })
    .change('user.updated', 2, bob);
  assert.deepEqual(rulesOf(late, [fault]), []);
  late.change('user.updated', 3, ann);
  assert.deepEqual(rulesOf(late, [fault]), ['out of nowhere']);
});

test('the model accepts a rejection without a fault when requests take as long as a timeout (seed 494)', () => {
  const slow = created().user('get', seesAnn, [10, 2_100]);
  const late = { ...read(0, 0), status: 503 };
  assert.deepEqual(rulesOf(slow, [], [late, read(0, 0, first)]), []);
});

test('the model accepts a follower whose request was too slow in a run with faults (seed 210)', () => {
  const late = { ...read(0, 0), status: 408 };
  assert.deepEqual(rulesOf(created(), [fault], [late, read(0, 0, first)]), []);
});

const badFeeds: Readonly<Record<string, readonly [rule: string, ...feed: Entry[]]>> = {
  'a hole that one follower saw': [
    'hole in the feed',
    read(0, 0, ...followed),
    read(1, 0, first, third, fourth),
  ],
  'a hole that all followers saw': ['wrong feed', read(0, 0, second, third, fourth)],
  'a feed that ends too early': ['wrong deletion', read(0, 0, first, second, third)],
  'positions out of order': ['reordered feed', read(0, 0, first, second, fourth, third)],
  'a change again after resuming': ['reordered feed', read(0, 0, ...followed), read(0, 5, fourth)],
  'another order than that of the writes': [
    'reordered feed',
    read(0, 0, first, { ...third, id: '2' }, { ...second, id: '4' }, fourth),
  ],
  'two feeds that differ': [
    'feeds that differ',
    read(0, 0, ...followed),
    read(1, 0, { ...first, version: 3 }, second, third, fourth),
  ],
  'a value that nothing wrote': [
    'id given twice',
    read(0, 0, { ...first, data: { ...ann, role: 'x' } }, second, third, fourth),
  ],
  'a status that is not documented': ['wrong status', { ...read(0, 0, ...followed), status: 410 }],
};

for (const [what, [rule, ...feed]] of Object.entries(badFeeds)) {
  test(`the model rejects ${what} in the feed`, () => {
    assert.ok(rulesOfFeed(...feed).includes(rule), `${rulesOfFeed(...feed)}`);
  });
}

test('the story of a violation is the requests for its record, with the culprits marked', () => {
  const { entries, changes } = created().user('patch', renamed).user('get', seesAnn);
  const [violation] = judge({ entries: [...entries, read(0, 0, ...changes)], faults: [] }).violations;
  assert.ok(violation);
  assert.deepEqual(
    story(violation)
      .split('\n')
      .map((line) => line.slice(0, 42)),
    [
      'not linearizable: user 1: a get shows {"id',
      '> 10.0-15.0 ms client 0 at process 0: patc',
      '> 20.0-25.0 ms client 0 at process 0: get ',
    ],
  );
});

test('a seed always draws the same plan, and another seed another one', () => {
  assert.deepEqual(drawPlan(7), drawPlan(7));
  assert.notDeepEqual(drawPlan(7).steps, drawPlan(8).steps);
  const { steps, faults, store } = drawPlan(7, 4);
  assert.equal(steps.length, 4);
  // Another plan for a known seed would make the seeds of old reports worthless.
  const drawn = [store.kind, store.processes, steps[0]?.kind, steps[0]?.record, faults.length];
  assert.deepEqual(drawn, ['sqlite', 3, 'get', 'post', 5]);
});
