import assert from 'node:assert/strict';
import { follow, readAll } from '../../src/conformance/follow.ts';
import { Random } from '../../src/conformance/random.ts';
import { type Change, changeTypes, kindOf } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { byKind, recordKinds } from '../../src/domain/record.ts';
import type { ChangeFeed, Repository, Store } from '../../src/domain/repository.ts';

export interface RandomLoad {
  readonly seed: number;
  readonly writers: number;
  /** The number of writes of each writer. */
  readonly writes: number;
}

/** The name of the user that is created after all other writes. */
export function lastUserOf({ seed }: RandomLoad): string {
  return `last of ${seed}`;
}

/** Runs writers that change a few users and posts at random, and then creates a user named `lastUserOf`. */
export async function writeAtRandom(repository: Repository, load: RandomLoad): Promise<void> {
  const writer = async (_: unknown, i: number): Promise<void> => {
    const random = new Random(load.seed * 1_000 + i);
    for (let n = 0; n < load.writes; n += 1) await writeOnce(repository, random, `${load.seed}-${i}-${n}`);
  };
  await Promise.all(Array.from({ length: load.writers }, writer));
  await repository.users.create({ name: lastUserOf(load) });
}

async function writeOnce(repository: Repository, random: Random, requestId: string): Promise<void> {
  const [userId, id] = [1 + random.below(40), 1 + random.below(80)];
  const origin = { requestId, ...(random.below(2) === 0 && { key: 'ops' }) };
  const options = { origin, ...(random.below(4) === 0 && { expected: [1 + random.below(3)] }) };
  const idempotency = { key: `${random.below(500)}`, fingerprint: '' };
  const creation = { origin, ...(random.below(3) === 0 && { idempotency }) };
  const name = random.pick(['Ada', 'Eve', 'é\u0301 😀', ' "quoted" \\ ']);
  const role = random.pick<string | null>([null, 'admin', 'reader']);
  const kinds: readonly [() => Promise<unknown>, ...(() => Promise<unknown>)[]] = [
    () => repository.users.create(role === null ? { name } : { name, role }, creation),
    () => repository.users.update(userId, { name, role }, options),
    () => repository.users.update(userId, { role }, options),
    () => repository.posts(userId).create({ title: name, body: requestId }, creation),
    () => repository.posts(userId).create({ title: name, body: '' }, creation),
    () => repository.posts(userId).update(id, { title: name }, options),
    // A random id rarely matches a post, so this update picks an existing one.
    () => updateAnyPost(repository, random, id, name),
    () => repository.posts(userId).delete(id, options),
    () => (random.below(4) === 0 ? repository.users.delete(userId, options) : Promise.resolve()),
  ];
  try {
    await random.pick(kinds)();
  } catch (error) {
    assert(error instanceof DomainError, `${error}`);
    assert.match(error.kind, /^(precondition-failed|conflict|unprocessable)$/, `${error.stack}`);
  }
}

async function updateAnyPost(
  repository: Repository,
  random: Random,
  id: number,
  title: string,
): Promise<void> {
  for (let userId = 1; userId <= 40; userId += 1 + random.below(3)) {
    await repository.posts(userId).update(id, { title });
  }
}

/** Records by kind and id, as a follower of the feed would store them. */
export class Replica {
  readonly kinds = byKind(() => new Map<number, Change['record']>());

  static of(changes: readonly Change[]): Replica {
    const replica = new Replica();
    for (const change of changes) replica.apply(change);
    return replica;
  }

  /** Applies a change, unless the stored record is newer. */
  apply({ type, record }: Change): void {
    const records = this.kinds[kindOf(type)];
    const known = records.get(record.id);
    if (type.endsWith('.deleted')) records.delete(record.id);
    else if (known === undefined || known.version < record.version) records.set(record.id, record);
  }

  /** Adds all records of a store, page by page. */
  async list(store: Store): Promise<void> {
    for (const kind of recordKinds) {
      for (let after = 0; ; ) {
        const rows = await store.exportRows(kind, after, 7);
        for (const row of rows) this.kinds[kind].set(row.id, row);
        const last = rows.at(-1);
        if (last === undefined) break;
        after = last.id;
      }
    }
  }

  get records() {
    return byKind((kind) => [...this.kinds[kind].values()].sort((a, b) => a.id - b.id));
  }
}

/** Whether the last users of all loads exist. */
export function isWhole(
  ...loads: readonly RandomLoad[]
): (changes: readonly Pick<Change, 'record'>[]) => boolean {
  return (changes) => {
    const names = new Set(changes.map(({ record }) => ('name' in record ? record.name : '')));
    return loads.every((load) => names.has(lastUserOf(load)));
  };
}

/** Runs four followers with different page sizes until they have read everything. Resolves to the changes. */
export async function followTogether(
  feed: ChangeFeed,
  ...loads: readonly RandomLoad[]
): Promise<readonly Change[]> {
  const [first = [], ...others] = await Promise.all(
    [1, 3, 50, 1_000].map((limit) => follow(feed, isWhole(...loads), { limit })),
  );
  for (const other of others) assert.deepEqual(other, first, 'the followers have read different changes');
  return first;
}

/** Fails unless the changes add up to the content of the store, and filters return their parts of them. */
export async function checkFeed(store: Store, feed: ChangeFeed, changes: readonly Change[]): Promise<void> {
  const there = new Replica();
  await there.list(store);
  assert.deepEqual(Replica.of(changes).records, there.records);
  const versions = new Map<string, number>();
  for (const { type, record } of changes) {
    const id = `${kindOf(type)} ${record.id}`;
    const before = versions.get(id) ?? 0;
    assert.equal(record.version, type.endsWith('.deleted') ? before : before + 1, `${type} ${record.id}`);
    assert.ok(before > 0 === !type.endsWith('.created'), `${type} ${record.id}`);
    versions.set(id, record.version);
  }
  const ownerOf = ({ record }: Change) => ('userId' in record ? record.userId : record.id);
  for (const types of [...changeTypes.map((type) => [type]), changeTypes.slice(1, 4)]) {
    for (const userId of [undefined, 1, 2, 1_000_000]) {
      const expected = changes.filter(
        (change) => types.includes(change.type) && (userId === undefined || ownerOf(change) === userId),
      );
      const filter = { types, ...(userId !== undefined && { userId }) };
      assert.deepEqual(await readAll(feed, { ...filter, limit: 5 }), expected, `${types} of ${userId}`);
    }
  }
}
