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
type Users = Store['users'];
type Posts = ReturnType<Store['posts']>;

/** Calls another function in the place of a method of users. */
function inUsers<Name extends keyof Users>(
  name: Name,
  wrong: (users: Users, ...args: Parameters<Users[Name]>) => ReturnType<Users[Name]>,
): Defect {
  return (store, happens) => {
    const { users } = store;
    const call = (...args: Parameters<Users[Name]>) =>
      happens() ? wrong(users, ...args) : Reflect.apply(users[name], users, args);
    return { ...store, users: { ...users, [name]: call } };
  };
}

/** Calls another function in the place of a method of the posts of a user. */
function inPosts<Name extends keyof Posts>(
  name: Name,
  wrong: (posts: Posts, ...args: Parameters<Posts[Name]>) => ReturnType<Posts[Name]>,
): Defect {
  return (store, happens) => {
    const postsOf = (userId: number) => {
      const posts = store.posts(userId);
      const call = (...args: Parameters<Posts[Name]>) =>
        happens() ? wrong(posts, ...args) : Reflect.apply(posts[name], posts, args);
      return { ...posts, [name]: call };
    };
    return { ...store, posts: postsOf };
  };
}

/** Returns another page of users. */
function inPage(spoil: (page: Page<User>, query: UserQuery, users: Users) => Answer<Page<User>>): Defect {
  return inUsers('list', async (users, query, options) =>
    spoil(await users.list(query, options), query, users),
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
  'lost update': inUsers('update', async (users, id, patch, options) => {
    const before = await users.get(id);
    await sleep(10);
    const { name, role = null } = { ...before, ...patch };
    return users.update(id, { ...(name !== undefined && { name }), role }, options);
  }),
  // As from a standby that lags behind.
  'stale read': inUsers('get', async (users, id, options) => {
    if (!read.has(id)) read.set(id, await users.get(id, options));
    return read.get(id);
  }),
  'stale list': inPage((page) => {
    for (const user of page.items) listed.set(user.id, listed.get(user.id) ?? user);
    return { ...page, items: page.items.map((user) => listed.get(user.id) ?? user) };
  }),
  'doubled POST': inUsers('create', (users, draft) => users.create(draft)),
  'id given twice': inUsers('create', async (users, draft, options) => {
    const made = await users.create(draft, options);
    firstId ??= made.value.id;
    return { ...made, value: { ...made.value, id: firstId } };
  }),
  'skipped row': inPage((page) => ({ ...page, items: page.items.toSpliced(1, 1) })),
  'cursor that jumps': inPage(async (page, query, users) => {
    if (page.next === undefined) return page;
    const further = await users.list({ ...query, limit: 1, start: { after: page.next } });
    return { ...page, next: further.next ?? page.next };
  }),
  // The next page begins at the last row but one.
  'repeated row': inPage((page, { sort }) => {
    const place = page.items.at(-2) ?? page.items[0];
    return page.next && place ? { ...page, next: positionOf(place, sort) } : page;
  }),
  'wrong order': inPage((page) => ({ ...page, items: page.items.toReversed() })),
  'wrong filter': inUsers('list', (users, query, options) => {
    const { role: _role, ...filter } = query.filter;
    return users.list({ ...query, filter }, options);
  }),
  'wrong count': inUsers('count', async (users, filter, options) => {
    return (await users.count(filter, options)) + 1;
  }),
  'wrong 404': inUsers('get', () => undefined),
  'ignored If-Match': inUsers('update', (users, id, patch) => users.update(id, patch)),
  'needless 412': inUsers('update', (users, id, patch, options) =>
    users.update(id, patch, options?.expected ? { expected: [] } : options),
  ),
  'lost write': inUsers('update', async (users, id, patch, options) => {
    const before = await users.get(id);
    if (before === undefined || options?.expected) return users.update(id, patch, options);
    const { name = before.name, role = before.role } = patch;
    return { id, name, ...(role && { role }), version: before.version + 1 };
  }),
  'lost creation': inPosts('create', async (posts, draft, options) => {
    const made = await posts.create(draft, options);
    if (made !== undefined) await posts.delete(made.value.id);
    return made;
  }),
  'undead user': inUsers('delete', async (users, id) => (await users.get(id)) !== undefined),
  'version that stays': inUsers('update', async (users, id, patch, options) => {
    const user = await users.update(id, patch, options);
    return user && { ...user, version: Math.max(user.version - 1, 1) };
  }),
  'undocumented status': inPosts('get', () => {
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
