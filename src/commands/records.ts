import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Post } from '../domain/post.ts';
import type { Store } from '../domain/repository.ts';
import type { StoredUser } from '../domain/user.ts';
import { openStore, sqlitePath } from '../storage/open.ts';

/**
 * How much is moved at a time. The rows of a batch share a commit and the pages of the indexes it
 * touches: with 10,000 of them SQLite writes a fifth of what it writes with 1,000. How many fit into
 * so many characters is guessed from the batch before: where long posts follow short ones, a batch is
 * 25 million characters at the worst.
 */
export const batchLimits = { users: 10_000, posts: 2_500, characters: 4_000_000 };

// Before it is known how long they are.
const firstBatchRows = 100;

type Rows<T> = AsyncGenerator<readonly T[], void>;

/** Opens a store to read from: a file that is not there is a mistake, not an empty store. */
export async function openSource(url: string): Promise<Store> {
  const path = sqlitePath(url);
  if (path !== undefined && !existsSync(path)) throw new Error(`there is no SQLite file ${path}`);
  return await openStore(url);
}

/** All users of a store by id, in batches. */
export function userBatches(store: Store): Rows<StoredUser> {
  return batches(
    (afterId, limit) => store.exportUsers(afterId, limit),
    ({ name }) => name.length,
    batchLimits.users,
  );
}

/** All posts of a store by id, in batches. */
export function postBatches(store: Store): Rows<Post> {
  return batches(
    (afterId, limit) => store.exportPosts(afterId, limit),
    ({ title, body }) => title.length + body.length,
    batchLimits.posts,
  );
}

async function* batches<T extends { readonly id: number }>(
  read: (afterId: number, limit: number) => Promise<readonly T[]>,
  charactersOf: (row: T) => number,
  maxRows: number,
): Rows<T> {
  let next = read(0, firstBatchRows);
  for (;;) {
    const rows = await next;
    const last = rows.at(-1);
    if (last === undefined) return;
    const characters = rows.reduce((sum, row) => sum + charactersOf(row), 0);
    const fitting = Math.ceil((batchLimits.characters * rows.length) / characters);
    // The next are read while these are used; whoever stops before them does not want their failure.
    next = read(last.id, Math.min(maxRows, fitting));
    next.catch(() => undefined);
    yield rows;
  }
}

/** A user as one line of NDJSON. Equal users have equal lines. */
export function userLine({ id, name, role, version }: StoredUser): string {
  return JSON.stringify({ type: 'user', id, name, ...(role !== undefined && { role }), version });
}

/** A post as one line of NDJSON. Equal posts have equal lines. */
export function postLine({ id, userId, title, body }: Post): string {
  return JSON.stringify({ type: 'post', id, userId, title, body });
}

/** A digest of lines in order: two stores with the same digest hold the same. */
export class RecordDigest {
  readonly #hash = createHash('sha256');
  /** Lines taken so far. */
  records = 0;

  add(line: string): void {
    this.records += 1;
    this.#hash.update(line).update('\n');
  }

  /** The digest of the lines so far, in hexadecimal. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** Reads a whole store into a digest. `onRecords` is told how many have been read, batch by batch. */
export async function digestStore(store: Store, onRecords: (records: number) => void): Promise<RecordDigest> {
  const digest = new RecordDigest();
  for await (const users of userBatches(store)) {
    for (const user of users) digest.add(userLine(user));
    onRecords(digest.records);
  }
  for await (const posts of postBatches(store)) {
    for (const post of posts) digest.add(postLine(post));
    onRecords(digest.records);
  }
  return digest;
}
