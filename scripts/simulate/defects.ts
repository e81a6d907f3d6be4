// The planted defects. A process of the service has the one that the query names if it imports this file first.
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../src/conformance/random.ts';
import type { Change } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { type Page, positionOf } from '../../src/domain/list-query.ts';
import type { Answer, Store } from '../../src/domain/repository.ts';
import type { StoredUser, User, UserQuery } from '../../src/domain/user.ts';
import { storeSchemes } from '../../src/storage/open.ts';

/** Returns a store with a wrong method. A call uses it if `happens` returns true. */
type Defect = (store: Store, happens: () => boolean) => Store;
type Methods = Omit<Store, 'changes'>;

/** Calls another function in the place of a method. */
function instead<Name extends keyof Methods>(
  name: Name,
  wrong: (store: Store, ...args: Parameters<Methods[Name]>) => ReturnType<Methods[Name]>,
): Defect {
  return (store, happens) => {
    const call = (...args: Parameters<Methods[Name]>) =>
      happens() ? wrong(store, ...args) : Reflect.apply(store[name], store, args);
    return { ...store, [name]: call };
  };
}

/** Returns another page of users. */
function inPage(spoil: (page: Page<User>, query: UserQuery, store: Store) => Answer<Page<User>>): Defect {
  return instead('listUsers', async (store, query, options) =>
    spoil(await store.listUsers(query, options), query, store),
  );
}

/** Returns other changes of the feed. */
function inFeed(spoil: (changes: readonly Change[]) => Change[]): Defect {
  return ({ changes: feed, ...store }, happens) => {
    if (feed === undefined) throw new Error('the store keeps no feed');
    const read: typeof feed.read = async (...args) => {
      const page = await feed.read(...args);
      return happens() ? { ...page, changes: spoil(page.changes) } : page;
    };
    return { ...store, changes: { ...feed, read } };
  };
}

// What a defect has seen.
const read = new Map<number, StoredUser | undefined>();
const listed = new Map<number, User>();
let firstId: number | undefined;

/** Each breaks one promise, and the model must find it. */
export const defects: Readonly<Record<string, Defect>> = {
  // Reads, then writes the whole row, which undoes the writes in between.
  'lost update': instead('updateUser', async (store, id, patch, options) => {
    const before = await store.getUser(id);
    await sleep(10);
    const { name, role = null } = { ...before, ...patch };
    return store.updateUser(id, { ...(name !== undefined && { name }), role }, options);
  }),
  // As from a standby that lags behind.
  'stale read': instead('getUser', async (store, id, options) => {
    if (!read.has(id)) read.set(id, await store.getUser(id, options));
    return read.get(id);
  }),
  'stale list': inPage((page) => {
    for (const user of page.items) listed.set(user.id, listed.get(user.id) ?? user);
    return { ...page, items: page.items.map((user) => listed.get(user.id) ?? user) };
  }),
  'doubled POST': instead('createUser', (store, draft) => store.createUser(draft)),
  'id given twice': instead('createUser', async (store, draft, options) => {
    const made = await store.createUser(draft, options);
    firstId ??= made.value.id;
    return { ...made, value: { ...made.value, id: firstId } };
  }),
  'skipped row': inPage((page) => ({ ...page, items: page.items.toSpliced(1, 1) })),
  'cursor that jumps': inPage(async (page, query, store) => {
    if (page.next === undefined) return page;
    const further = await store.listUsers({ ...query, limit: 1, start: { after: page.next } });
    return { ...page, next: further.next ?? page.next };
  }),
  // The next page begins at the last row but one.
  'repeated row': inPage((page, { sort }) => {
    const place = page.items.at(-2) ?? page.items[0];
    return page.next && place ? { ...page, next: positionOf(place, sort) } : page;
  }),
  'wrong order': inPage((page) => ({ ...page, items: page.items.toReversed() })),
  'wrong filter': instead('listUsers', (store, query, options) => {
    const { role: _role, ...filter } = query.filter;
    return store.listUsers({ ...query, filter }, options);
  }),
  'wrong count': instead('countUsers', async (store, filter, options) => {
    return (await store.countUsers(filter, options)) + 1;
  }),
  'wrong 404': instead('getUser', () => undefined),
  'ignored If-Match': instead('updateUser', (store, id, patch) => store.updateUser(id, patch)),
  'needless 412': instead('updateUser', (store, id, patch, options) =>
    store.updateUser(id, patch, options?.expected ? { expected: [] } : options),
  ),
  'lost write': instead('updateUser', async (store, id, patch, options) => {
    const before = await store.getUser(id);
    if (before === undefined || options?.expected) return store.updateUser(id, patch, options);
    const { name = before.name, role = before.role } = patch;
    return { id, name, ...(role && { role }), version: before.version + 1 };
  }),
  'lost creation': instead('createPost', async (store, userId, draft, options) => {
    const made = await store.createPost(userId, draft, options);
    if (made !== undefined) await store.deletePost(userId, made.value.id);
    return made;
  }),
  'undead user': instead('deleteUser', async (store, id) => (await store.getUser(id)) !== undefined),
  'version that stays': instead('updateUser', async (store, id, patch, options) => {
    const user = await store.updateUser(id, patch, options);
    return user && { ...user, version: Math.max(user.version - 1, 1) };
  }),
  'undocumented status': instead('getPost', () => {
    throw new DomainError('internal', 'planted');
  }),
  // As if a commit became visible after a later one had been read.
  'hole in the feed': inFeed((changes) => changes.slice(0, -1)),
  'reordered feed': inFeed((changes) => changes.toReversed()),
  'doubled change': inFeed((changes) => [...changes.slice(0, 1), ...changes]),
  'wrong change': inFeed((changes) =>
    changes.map(({ record, ...rest }) => ({ ...rest, record: { ...record, version: record.version + 1 } })),
  ),
};

/** A defect happens in one call of four. These are harder to find, and happen in every call. */
const constant = ['lost update', 'wrong count'];

const { name = '', seed } = Object.fromEntries(new URL(import.meta.url).searchParams);
const plant = defects[name];
if (plant !== undefined) {
  const random = new Random(Number(seed));
  const happens = () => constant.includes(name) || random.below(4) === 0;
  for (const scheme of storeSchemes) {
    const { open } = scheme;
    const openSpoilt: typeof open = async (...args) => plant(await open(...args), happens);
    Object.assign(scheme, { open: openSpoilt });
  }
}
