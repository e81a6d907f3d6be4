import assert from 'node:assert/strict';
import { after, it, type TestContext } from 'node:test';
import { DomainError, type ErrorKind } from '../domain/errors.ts';
import { type Page, type PageStart, positionOf, type Sort } from '../domain/list-query.ts';
import type { CreateOptions, Repository } from '../domain/repository.ts';
import {
  parseUserQuery,
  type StoredUser,
  type User,
  type UserDraft,
  type UserFilter,
  type UserQuery,
} from '../domain/user.ts';

export interface OpenOptions {
  /** The clock by which idempotency keys expire, in milliseconds. */
  readonly now?: () => number;
  /** The minimum number of changes that the feed keeps; 0: no feed. */
  readonly changesKept?: number;
}

/** Makes a new, empty repository. Several are open at once, so each needs its own data. */
export type OpenRepository = (options: OpenOptions) => Promise<Repository>;

/** Optional abilities of a repository. Without one, its tests are not declared, and the name of the suite says so. */
export interface RepositoryTraits {
  /** Whether it has a feed of changes, unless `changesKept` is 0. */
  readonly feed?: boolean;
  /** Opens the data of a closed repository again, as after a restart. Absent: the data is lost on `close`. */
  readonly reopen?: (closed: Repository) => Promise<Repository>;
  /** The number of stored idempotency keys, including expired ones. */
  readonly countKeys?: (repository: Repository) => Promise<number>;
  /** Ages the idempotency keys of a repository that cannot use `now`. Default: `now` advances. */
  readonly passTime?: (repository: Repository, ms: number) => Promise<void>;
  /** Repeats the random tests of an earlier run, which printed its seed. Default: random. */
  readonly seed?: number;
}

type RepositoryTest = (repository: Repository, t: TestContext) => Promise<void>;

/** Opens repositories for the tests. */
export interface Fixture {
  readonly traits: RepositoryTraits;
  /** Declares a test of a new, empty repository, which is closed after the test. */
  it(name: string, test: RepositoryTest): void;
  /** Declares such a test that restarts the repository, unless its data is lost on `close`. */
  itRestarts(name: string, test: RepositoryTest): void;
  /** Another new, empty repository, or one with options. */
  open(t: TestContext, options?: OpenOptions): Promise<Repository>;
  /**
   * A repository that several tests of a `describe` share, to open fewer. The first call opens and fills it.
   * Tests must leave the records of `fill` unchanged.
   */
  share(fill: (repository: Repository) => Promise<unknown>): () => Promise<Repository>;
  /** Closes a repository, and opens its data again. */
  restart(t: TestContext, repository: Repository): Promise<Repository>;
}

export function createFixture(open: OpenRepository, traits: RepositoryTraits): Fixture {
  const closedAfter = (t: TestContext, repository: Repository): Repository => {
    t.after(() => repository.close());
    return repository;
  };
  const openFor = async (t: TestContext, options: OpenOptions = {}) => closedAfter(t, await open(options));
  const itOpens = (name: string, test: RepositoryTest) => it(name, async (t) => test(await openFor(t), t));
  return {
    traits,
    it: itOpens,
    itRestarts: traits.reopen === undefined ? () => undefined : itOpens,
    open: openFor,
    share(fill) {
      let opened: Promise<Repository> | undefined;
      const openAndFill = async () => {
        const repository = await open({});
        await fill(repository);
        return repository;
      };
      after(async () => (await opened)?.close());
      return () => {
        opened ??= openAndFill();
        return opened;
      };
    },
    async restart(t, repository) {
      await repository.close();
      assert(traits.reopen);
      return closedAfter(t, await traits.reopen(repository));
    },
  };
}

/** Two users with all fields, which differ in each of them. */
export const fullUsers: readonly [Required<UserDraft>, Required<UserDraft>] = [
  { name: 'Ada', role: 'admin' },
  { name: 'Eve', role: 'editor' },
];

/** A value for each filter, which only the first of these users matches if it has the id 1. */
export const userFilters: Readonly<Record<keyof UserFilter, string>> = {
  role: fullUsers[0].role,
  name: fullUsers[0].name,
  id: '1',
};

/** A query as a client writes it, such as `sort=-name&limit=3`. */
export function userQuery(text = ''): UserQuery {
  return parseUserQuery(new URLSearchParams(text));
}

/** The values that all rows of a list have in one field. */
export function columnOf<Row, Field extends keyof Row>(rows: readonly Row[] | undefined, field: Field) {
  return rows?.map((row) => row[field]);
}

/** The options of a creation with an idempotency key. */
export function keyed(key: string, fingerprint = 'fingerprint'): CreateOptions {
  return { idempotency: { key, fingerprint } };
}

export async function rejects(answer: unknown, ...kinds: ErrorKind[]): Promise<void> {
  await assert.rejects(Promise.resolve(answer), (error) => {
    assert(error instanceof DomainError, `not a DomainError: ${error}`);
    assert(kinds.includes(error.kind), `${error.kind} (${error.message}) instead of ${kinds.join(' or ')}`);
    return true;
  });
}

/** Creates users from `name` or `name:role`, one after the other. */
export async function addUsers(repository: Repository, ...users: readonly string[]): Promise<StoredUser[]> {
  const added: StoredUser[] = [];
  for (const user of users) {
    const [name = '', role] = user.split(':');
    const { value } = await repository.users.create(role === undefined ? { name } : { name, role });
    added.push(value);
  }
  return added;
}

/** Reads all pages of a query, each after the last row of the previous page. */
export async function walkUsers(repository: Repository, text: string): Promise<User[]> {
  const query = userQuery(text);
  return walk(query, (start) => repository.users.list({ ...query, start }));
}

/** More rows than any list of the tests has. Without a limit, a next page that leads back would never end. */
export const maxWalked = 10_000;

/** Reads all pages, each after the last row of the previous page. */
export async function walk<T extends object>(
  { start, sort }: { readonly start: PageStart; readonly sort: Sort<string> },
  fetchPage: (start: PageStart) => Promise<Page<T>>,
): Promise<T[]> {
  let page = await fetchPage(start);
  const items = [...page.items];
  while (page.next !== undefined) {
    // The cursors of the HTTP API contain this position, and any other value in one is rejected.
    assert.deepEqual({ next: page.next }, { next: positionOf(items.at(-1) ?? {}, sort) });
    page = await fetchPage({ after: page.next });
    assert.notEqual(page.items.length, 0, 'a next page is empty, although no row was deleted');
    items.push(...page.items);
    assert(items.length <= maxWalked, 'a next page leads back');
  }
  return items;
}
