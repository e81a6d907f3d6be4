// The planted defects. Run as a program, this is the service with one of them, in the place of `src/main.ts`.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Random } from '../../src/conformance/random.ts';
import type { Change } from '../../src/domain/change.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { type Page, positionOf } from '../../src/domain/list-query.ts';
import type { ChangeFeed, Repository } from '../../src/domain/repository.ts';
import type { StoredUser, User, UserQuery } from '../../src/domain/user.ts';
import { createService } from '../../src/service.ts';
import { patched } from '../../src/storage/memory/rows.ts';
import { openStore } from '../../src/storage/open.ts';

type Methods = Omit<Repository, 'changes'> & ChangeFeed;
/** Makes a wrong method for a repository or its feed. */
type Defect = (store: Repository) => Partial<Methods>;

/** Calls another function in the place of a method. */
function instead<Name extends keyof Methods>(
  name: Name,
  wrong: (store: Repository, ...args: Parameters<Methods[Name]>) => ReturnType<Methods[Name]>,
): Defect {
  return (store) => ({ [name]: (...args: Parameters<Methods[Name]>) => wrong(store, ...args) });
}

/** Returns another page of users. */
function inPage(
  spoil: (page: Page<User>, query: UserQuery, store: Repository) => Page<User> | Promise<Page<User>>,
): Defect {
  return instead('listUsers', async (store, query, options) =>
    spoil(await store.listUsers(query, options), query, store),
  );
}

/** Returns other changes of the feed. */
function inFeed(spoil: (changes: readonly Change[]) => Change[]): Defect {
  return instead('read', async ({ changes: feed }, query, options) => {
    if (feed === undefined) throw new Error('the store keeps no feed');
    const page = await feed.read(query, options);
    return { ...page, changes: spoil(page.changes) };
  });
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
    return { ...patched(before, patch), version: before.version + 1 };
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

/** `target` with wrong methods in the place of its own, in the calls that `happens` chooses. */
function overlaid<T extends object>(target: T, wrong: Partial<Methods>, happens: () => boolean): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === 'changes') return overlaid(Object(value), wrong, happens);
      const other = Reflect.get(wrong, name);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => Reflect.apply(other && happens() ? other : value, target, args);
    },
  });
}

if (import.meta.main) {
  const text = { type: 'string', default: '' } as const;
  const { values } = parseArgs({
    options: { database: text, port: text, 'grpc-port': text, defect: text, seed: text },
  });
  const { defect } = values;
  const store = await openStore(values.database);
  const wrong = defects[defect]?.(store);
  if (wrong === undefined) throw new Error(`no defect is called ${defect}`);
  const random = new Random(Number(values.seed));
  const repository = overlaid(store, wrong, () => constant.includes(defect) || random.below(4) === 0);
  const service = createService({
    repository,
    port: Number(values.port),
    grpcPort: Number(values['grpc-port']),
  });
  process.on('SIGHUP', () => undefined);
  process.once('SIGTERM', async () => {
    await service.close();
    await store.close();
  });
  await service.listen();
}
