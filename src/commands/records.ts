import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { isInRange, rangeText } from '../check-range.ts';
import { invalid } from '../domain/errors.ts';
import { type Post, parsePostDraft } from '../domain/post.ts';
import { parseRecord, quote } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import { maxId, parseUserDraft, type StoredUser } from '../domain/user.ts';
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
    // The next batch is read while this one is used. Its failure is reported when it is asked for.
    next = read(last.id, Math.min(maxRows, fitting));
    next.catch(() => undefined);
    yield rows;
  }
}

/** Some records of one kind. */
export interface Batch {
  readonly lines: () => readonly string[];
  /** Resolves to how many of them were new. */
  readonly importInto: (target: Store) => Promise<number>;
}

/** All records of a store in batches, in the order in which they can be imported. */
export async function* recordBatches(store: Store): AsyncGenerator<Batch, void> {
  for await (const users of userBatches(store)) {
    yield { lines: () => users.map(userLine), importInto: (target) => target.importUsers(users) };
  }
  for await (const posts of postBatches(store)) {
    yield { lines: () => posts.map(postLine), importInto: (target) => target.importPosts(posts) };
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

  add(lines: readonly string[]): void {
    this.records += lines.length;
    for (const line of lines) this.#hash.update(line).update('\n');
  }

  /** The digest of the lines so far, in hexadecimal. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** The last line of an export. */
export interface EndRecord {
  /** How many records come before it, and their digest. */
  readonly records: number;
  readonly sha256: string;
  readonly lastUserId: number;
  readonly lastPostId: number;
}

type ImportRecord = { readonly user: StoredUser } | { readonly post: Post } | { readonly end: EndRecord };

/** Reads a line of NDJSON. Fails with a message that names the line. */
export function parseLine(line: string, lineNumber: number): ImportRecord {
  try {
    const value: unknown = JSON.parse(line);
    const { type, ...fields } = parseRecord('the record', value, recordFields);
    if (type === 'user') return { user: parseUser(fields) };
    if (type === 'post') return { post: parsePost(fields) };
    if (type === 'end') return { end: parseEnd(fields) };
    throw invalid('type', 'must be user, post or end');
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw new Error(`line ${lineNumber}`, { cause: error });
    const hint = line.startsWith('> ') ? '; npm wrote it: export with npm start --silent -- export' : '';
    throw new Error(`line ${lineNumber} is not JSON: ${quote(line)}${hint}`);
  }
}

const recordFields = [
  'type',
  'id',
  'name',
  'role',
  'version',
  'userId',
  'title',
  'body',
  'records',
  'sha256',
  'lastUserId',
  'lastPostId',
] as const;

function parseUser({ id, version = 1, ...draft }: Record<string, unknown>): StoredUser {
  return {
    id: parseInteger('id', id, 1),
    ...parseUserDraft(draft),
    version: parseInteger('version', version, 1),
  };
}

function parsePost({ id, userId, ...draft }: Record<string, unknown>): Post {
  return {
    id: parseInteger('id', id, 1),
    userId: parseInteger('userId', userId, 1),
    ...parsePostDraft(draft),
  };
}

function parseEnd({ records, sha256, lastUserId, lastPostId }: Record<string, unknown>): EndRecord {
  if (typeof sha256 !== 'string') throw invalid('sha256', 'must be a string');
  return {
    records: parseInteger('records', records, 0, Number.MAX_SAFE_INTEGER),
    sha256,
    lastUserId: parseInteger('lastUserId', lastUserId, 0),
    lastPostId: parseInteger('lastPostId', lastPostId, 0),
  };
}

function parseInteger(field: string, value: unknown, min: number, max = maxId): number {
  if (!isInRange(value, [min, max])) throw invalid(field, `must be ${rangeText([min, max])}`);
  return value;
}
