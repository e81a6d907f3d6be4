import assert from 'node:assert/strict';
import { after, it, type TestContext } from 'node:test';
import { DomainError, type ErrorKind } from '../domain/errors.ts';
import type { Page, PageStart } from '../domain/list-query.ts';
import { type Post, type PostQuery, parsePostQuery } from '../domain/post.ts';
import type { Repository } from '../domain/repository.ts';
import { parseUserQuery, type StoredUser, type User, type UserQuery } from '../domain/user.ts';

export interface OpenOptions {
  /** The clock by which idempotency keys expire, in milliseconds. */
  readonly now?: () => number;
  /** How many changes the feed keeps at least; 0: there is no feed. */
  readonly changesKept?: number;
}

/** Makes a new, empty repository. */
export type OpenRepository = (options: OpenOptions) => Promise<Repository>;

/** What the suite may rely on beyond the contract. What is absent is not tested. */
export interface RepositoryTraits {
  /** It has a feed of changes, unless it is opened to keep none. */
  readonly feed?: boolean;
  /** Opens again what a closed repository held, as after a restart. Absent: nothing outlives `close`. */
  readonly reopen?: (closed: Repository) => Promise<Repository>;
  /** How many idempotency keys are stored, expired ones included. */
  readonly countKeys?: (repository: Repository) => Promise<number>;
  /** Lets time pass for the keys of a repository that has a clock of its own. Default: `now` moves on. */
  readonly passTime?: (repository: Repository, ms: number) => Promise<void>;
  /** Repeats the random walk of an earlier run. Default: another one each time; it is printed. */
  readonly seed?: number;
}

/** What the tests of one subject are given. */
export interface Fixture {
  readonly traits: RepositoryTraits;
  /** A new, empty repository, closed after the test. */
  open(t: TestContext, options?: OpenOptions): Promise<Repository>;
  /**
   * A repository for all tests of the present subject that leave it as `fill` made it, which saves the
   * opening of many. It is opened when the first of them asks for it.
   */
  share(fill: (repository: Repository) => Promise<unknown>): () => Promise<Repository>;
  /** Closes a repository and opens what it held. */
  restart(t: TestContext, repository: Repository): Promise<Repository>;
  /** Declares a test that restarts; none where nothing outlives `close`. */
  itRestarts(name: string, test: (t: TestContext) => Promise<void>): void;
}

export function createFixture(open: OpenRepository, traits: RepositoryTraits): Fixture {
  const closedAfter = (t: TestContext, repository: Repository): Repository => {
    t.after(() => repository.close());
    return repository;
  };
  return {
    traits,
    open: async (t, options = {}) => closedAfter(t, await open(options)),
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
    itRestarts(name, test) {
      if (traits.reopen !== undefined) it(name, test);
    },
  };
}

/** A query as a client writes it, such as `sort=-name&limit=3`. */
export function userQuery(text = ''): UserQuery {
  return parseUserQuery(new URLSearchParams(text), noCursor);
}

export function postQuery(text = ''): PostQuery {
  return parsePostQuery(1, new URLSearchParams(text), noCursor);
}

// Cursors are the HTTP API's form of positions, which the tests use as they are.
const noCursor = () => undefined;

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
    const { value } = await repository.createUser(role === undefined ? { name } : { name, role });
    added.push(value);
  }
  return added;
}

/** All pages from a query's start on, each after the last row of the one before. */
export async function walkUsers(repository: Repository, text: string): Promise<User[]> {
  const query = userQuery(text);
  return walk(query.start, (start) => repository.listUsers({ ...query, start }));
}

export async function walkPosts(repository: Repository, userId: number, text: string): Promise<Post[]> {
  const query = postQuery(text);
  return walk(query.start, async (start) => {
    const page = await repository.listPosts(userId, { ...query, start });
    assert(page, `user ${userId} is gone`);
    return page;
  });
}

async function walk<T>(first: PageStart, fetchPage: (start: PageStart) => Promise<Page<T>>): Promise<T[]> {
  let page = await fetchPage(first);
  const items = [...page.items];
  while (page.next !== undefined) {
    page = await fetchPage({ after: page.next });
    assert.notEqual(page.items.length, 0, 'a page after another is not empty while nothing is deleted');
    items.push(...page.items);
  }
  return items;
}
