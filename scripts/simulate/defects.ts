import { Random } from '../../src/conformance/random.ts';
import type { ChangePage } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { positionOf } from '../../src/domain/position.ts';
import type { ChangeFeed, Repository } from '../../src/domain/repository.ts';
import type { StoredUser, User } from '../../src/domain/user.ts';

/** A wrong repository made of a right one. `now and then` is true for about one call in four. */
type Defect = (store: Repository, nowAndThen: () => boolean) => Partial<Repository>;

/** Defects to prove the model by; each breaks one promise, now and then. */
export const defects: Readonly<Record<string, Defect>> = {
  // Reads, then writes the whole row, so that what another wrote in between is undone.
  'lost update': (store) => ({
    async updateUser(id, patch, options) {
      const before = await store.getUser(id);
      await new Promise((resolve) => setTimeout(resolve, 10));
      const { name, role = null } = { ...before, ...patch };
      return store.updateUser(id, { ...(name !== undefined && { name }), role }, options);
    },
  }),
  // As from a standby that lags behind.
  'stale read': (store, nowAndThen) => {
    const kept = new Map<number, StoredUser | undefined>();
    return {
      async getUser(id, options) {
        if (kept.has(id) && nowAndThen()) return kept.get(id);
        const user = await store.getUser(id, options);
        kept.set(id, user);
        return user;
      },
    };
  },
  'stale list': (store, nowAndThen) => {
    const kept = new Map<number, User>();
    return {
      async listUsers(query, options) {
        const page = await store.listUsers(query, options);
        const items = nowAndThen() ? page.items.map((user) => kept.get(user.id) ?? user) : page.items;
        for (const user of page.items) kept.set(user.id, user);
        return { ...page, items };
      },
    };
  },
  'doubled POST': (store, nowAndThen) => ({
    createUser: (draft, options) => store.createUser(draft, nowAndThen() ? {} : options),
  }),
  'id given twice': (store, nowAndThen) => {
    let last: number | undefined;
    return {
      async createUser(draft, options) {
        const made = await store.createUser(draft, options);
        const id = last !== undefined && nowAndThen() ? last : made.value.id;
        last = made.value.id;
        return { ...made, value: { ...made.value, id } };
      },
    };
  },
  'skipped row': (store, nowAndThen) => ({
    async listUsers(query, options) {
      const page = await store.listUsers(query, options);
      return nowAndThen() ? { ...page, items: page.items.filter((_, i) => i !== 1) } : page;
    },
  }),
  'cursor that jumps': (store, nowAndThen) => ({
    async listUsers(query, options) {
      const page = await store.listUsers(query, options);
      if (page.next === undefined || !nowAndThen()) return page;
      const further = await store.listUsers({ ...query, limit: 1, start: { after: page.next } });
      return { ...page, next: further.next ?? page.next };
    },
  }),
  'repeated row': (store, nowAndThen) => ({
    async listUsers(query, options) {
      const page = await store.listUsers(query, options);
      const [first] = page.items;
      // Its next page begins at its own last row but one.
      const place = page.items.at(-2) ?? first;
      return page.next && place && nowAndThen() ? { ...page, next: positionOf(place, query.sort) } : page;
    },
  }),
  'wrong order': (store, nowAndThen) => ({
    async listUsers(query, options) {
      const page = await store.listUsers(query, options);
      return nowAndThen() ? { ...page, items: page.items.toReversed() } : page;
    },
  }),
  'wrong filter': (store, nowAndThen) => ({
    listUsers: (query, options) => {
      const { role: _role, ...filter } = query.filter;
      return store.listUsers(nowAndThen() ? { ...query, filter } : query, options);
    },
  }),
  'wrong count': (store) => ({
    countUsers: async (filter, options) => (await store.countUsers(filter, options)) + 1,
  }),
  'wrong 404': (store, nowAndThen) => ({
    getUser: async (id, options) => (nowAndThen() ? undefined : store.getUser(id, options)),
  }),
  'ignored If-Match': (store, nowAndThen) => ({
    updateUser: (id, patch, options) => store.updateUser(id, patch, nowAndThen() ? {} : options),
  }),
  'needless 412': (store, nowAndThen) => ({
    updateUser: (id, patch, options) =>
      store.updateUser(id, patch, options?.expected && nowAndThen() ? { expected: [] } : options),
  }),
  'lost write': (store, nowAndThen) => ({
    async updateUser(id, patch, options) {
      const before = await store.getUser(id);
      if (before === undefined || options?.expected !== undefined || !nowAndThen()) {
        return store.updateUser(id, patch, options);
      }
      const { role, ...rest } = { ...before, ...patch };
      return { ...rest, ...(role && { role }), version: before.version + 1 };
    },
  }),
  'lost creation': (store, nowAndThen) => ({
    async createPost(userId, draft, options) {
      const made = await store.createPost(userId, draft, options);
      if (made !== undefined && nowAndThen()) await store.deletePost(userId, made.value.id);
      return made;
    },
  }),
  'undead user': (store, nowAndThen) => ({
    deleteUser: async (id, options) =>
      nowAndThen() ? (await store.getUser(id)) !== undefined : store.deleteUser(id, options),
  }),
  'version that stays': (store, nowAndThen) => ({
    async updateUser(id, patch, options) {
      const user = await store.updateUser(id, patch, options);
      return user && user.version > 1 && nowAndThen() ? { ...user, version: user.version - 1 } : user;
    },
  }),
  'undocumented status': (store, nowAndThen) => ({
    async getPost(userId, id, options) {
      if (nowAndThen()) throw new DomainError('internal', 'planted');
      return store.getPost(userId, id, options);
    },
  }),
  // As when a commit becomes visible after a later one has been read.
  'hole in the feed': (store, nowAndThen) =>
    withFeed(store, (page) => (nowAndThen() ? { ...page, changes: page.changes.slice(0, -1) } : page)),
  'reordered feed': (store, nowAndThen) =>
    withFeed(store, (page) => (nowAndThen() ? { ...page, changes: page.changes.toReversed() } : page)),
  'doubled change': (store, nowAndThen) =>
    withFeed(store, (page) => {
      const [first] = page.changes;
      return first && nowAndThen() ? { ...page, changes: [first, ...page.changes] } : page;
    }),
  'wrong change': (store, nowAndThen) =>
    withFeed(store, (page) => {
      const changes = page.changes.map((change) => {
        const record = { ...change.record, version: change.record.version + 1 };
        return nowAndThen() ? { ...change, record } : change;
      });
      return { ...page, changes };
    }),
};

/** The feed of a store, with other pages. */
function withFeed({ changes }: Repository, spoil: (page: ChangePage) => ChangePage): Partial<Repository> {
  if (changes === undefined) throw new Error('the store keeps no feed');
  const read: ChangeFeed['read'] = async (query, options) => spoil(await changes.read(query, options));
  return { changes: overlaid(changes, { read }) };
}

/** The store with a defect in it. */
export function plant(store: Repository, name: string, seed: number): Repository {
  const make = defects[name];
  if (make === undefined) throw new Error(`no defect is called ${name}`);
  const random = new Random(seed);
  const wrong = make(store, () => random.below(4) === 0);
  return overlaid(store, wrong);
}

/** The methods of `target`, but for those of `other`. */
function overlaid<T extends object>(target: T, other: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(other, name) ?? Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
