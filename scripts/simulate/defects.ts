// The planted defects. Run as a program, this is the service with one of them, in the place of `src/main.ts`.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Random } from '../../src/conformance/random.ts';
import type { Change } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { type Page, positionOf } from '../../src/domain/list-query.ts';
import type { Repository } from '../../src/domain/repository.ts';
import type { StoredUser, User, UserQuery } from '../../src/domain/user.ts';
import { createService } from '../../src/service.ts';
import { openStore } from '../../src/storage/open.ts';

/** Makes wrong methods for a repository. `nowAndThen` is true for one call in four. */
type Defect = (store: Repository, nowAndThen: () => boolean) => Partial<Repository>;
type Method = Exclude<keyof Repository, 'changes'>;

/** Now and then calls another function in the place of a method. */
function instead<Name extends Method>(
  name: Name,
  wrong: (store: Repository, ...args: Parameters<Repository[Name]>) => ReturnType<Repository[Name]>,
): Defect {
  return (store, nowAndThen) => ({
    [name]: (...args: Parameters<Repository[Name]>) =>
      nowAndThen() ? wrong(store, ...args) : Reflect.apply(store[name], store, args),
  });
}

/** Now and then returns another page of users. */
function inPage(
  spoil: (page: Page<User>, query: UserQuery, store: Repository) => Page<User> | Promise<Page<User>>,
): Defect {
  return instead('listUsers', async (store, query, options) =>
    spoil(await store.listUsers(query, options), query, store),
  );
}

/** Now and then returns other changes of the feed. */
function inFeed(spoil: (changes: readonly Change[]) => Change[]): Defect {
  return ({ changes: feed }, nowAndThen) => {
    if (feed === undefined) throw new Error('the store keeps no feed');
    const read: typeof feed.read = async (query, options) => {
      const page = await feed.read(query, options);
      return nowAndThen() ? { ...page, changes: spoil(page.changes) } : page;
    };
    return { changes: overlaid(feed, { read }) };
  };
}

/** Each breaks one promise, and the model must find it. */
export const defects: Readonly<Record<string, Defect>> = {
  // Reads, then writes the whole row, which undoes the writes in between.
  'lost update': (store) => ({
    async updateUser(id, patch, options) {
      const before = await store.getUser(id);
      await sleep(10);
      const { name, role = null } = { ...before, ...patch };
      return store.updateUser(id, { ...(name !== undefined && { name }), role }, options);
    },
  }),
  // As from a standby that lags behind.
  'stale read': (store, nowAndThen) => {
    const kept = new Map<number, StoredUser | undefined>();
    return {
      async getUser(id, options) {
        if (!kept.has(id) || !nowAndThen()) kept.set(id, await store.getUser(id, options));
        return kept.get(id);
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
  'doubled POST': instead('createUser', (store, draft) => store.createUser(draft)),
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
  'wrong count': (store) => ({
    countUsers: async (filter, options) => (await store.countUsers(filter, options)) + 1,
  }),
  'wrong 404': instead('getUser', () => undefined),
  'ignored If-Match': instead('updateUser', (store, id, patch) => store.updateUser(id, patch)),
  'needless 412': instead('updateUser', (store, id, patch, options) =>
    store.updateUser(id, patch, options?.expected ? { expected: [] } : options),
  ),
  'lost write': instead('updateUser', async (store, id, patch, options) => {
    const before = await store.getUser(id);
    if (before === undefined || options?.expected) return store.updateUser(id, patch, options);
    const { role, ...rest } = { ...before, ...patch };
    return { ...rest, ...(role && { role }), version: before.version + 1 };
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

/** `target` with the methods of `other` in the place of its own. */
function overlaid<T extends object>(target: T, other: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(other, name) ?? Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

if (import.meta.main) {
  const text = { type: 'string', default: '' } as const;
  const { values } = parseArgs({
    options: { database: text, port: text, 'grpc-port': text, defect: text, seed: text },
  });
  const store = await openStore(values.database);
  const random = new Random(Number(values.seed));
  const wrong = defects[values.defect]?.(store, () => random.below(4) === 0);
  if (wrong === undefined) throw new Error(`no defect is called ${values.defect}`);
  const [port, grpcPort] = [Number(values.port), Number(values['grpc-port'])];
  const service = createService({ repository: overlaid(store, wrong), port, grpcPort });
  process.on('SIGHUP', () => undefined);
  process.once('SIGTERM', async () => {
    await service.close();
    await store.close();
  });
  await service.listen();
}
