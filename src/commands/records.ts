import { createHash } from 'node:crypto';
import type { Post } from '../domain/post.ts';
import type { Store } from '../domain/transfer.ts';
import type { StoredUser } from '../domain/user.ts';

/** Rows fetched at a time: at most a few MB, enough that a round trip does not count. */
const batchRows = 1_000;

type Rows<T> = AsyncGenerator<readonly T[], void>;

/** All users of a store by id, in batches. */
export async function* userBatches(store: Store): Rows<StoredUser> {
  let afterId = 0;
  for (;;) {
    const users = await store.exportUsers(afterId, batchRows);
    const last = users.at(-1);
    if (last === undefined) return;
    yield users;
    afterId = last.id;
  }
}

/** All posts of a store by id, in batches. */
export async function* postBatches(store: Store): Rows<Post> {
  let afterId = 0;
  for (;;) {
    const posts = await store.exportPosts(afterId, batchRows);
    const last = posts.at(-1);
    if (last === undefined) return;
    yield posts;
    afterId = last.id;
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
