import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { isInRange, rangeText } from '../check-range.ts';
import { invalid } from '../domain/errors.ts';
import { type Post, parsePostDraft } from '../domain/post.ts';
import { parseRecord } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import { maxId, parseUserDraft, type StoredUser } from '../domain/user.ts';
import { openStore } from '../storage/open.ts';
import { type CommandContext, runCommand } from './command.ts';
import { databaseUrl, readArguments } from './command-line.ts';
import { createProgress } from './progress.ts';
import { batchLimits, postLine, RecordDigest, userLine } from './records.ts';

const help = `usage: users-service import [FILE] [--database URL]

Reads NDJSON as export writes it. Rows that are there already are left: it may be interrupted and run again.

  FILE            where from [the input]
  --database URL  the store: sqlite:PATH or postgres://… [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
`;

interface EndRecord {
  readonly records: number;
  readonly sha256: string;
  readonly lastUserId: number;
  readonly lastPostId: number;
}

type ImportRecord = { readonly user: StoredUser } | { readonly post: Post } | { readonly end: EndRecord };

/**
 * Reads NDJSON as `export` writes it, from a file or from the input: `import [FILE] [--database URL]`.
 * Rows that are there already are left, so an interrupted import is simply run again. Without the
 * last line of an export (as in a file written by hand) there is no checksum to compare.
 */
export function importRecords(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const given = readArguments(context.args, ['database'], { positionals: 1 });
    const [file = '-'] = given.positionals;
    await using stores = new AsyncDisposableStack();
    const store = stores.adopt(await openStore(databaseUrl(given, context.env)), (opened) => opened.close());
    const input = file === '-' ? context.stdin : createReadStream(file);
    const { added, records, sha256 } = await readInto(store, input, context);
    const checksum = sha256 === undefined ? '' : `, sha256 ${sha256}`;
    context.stdout.write(`imported ${added} new of ${records} records${checksum}\n`);
  });
}

async function readInto(store: Store, input: NodeJS.ReadableStream, { stderr }: CommandContext) {
  const digest = new RecordDigest();
  const progress = createProgress(stderr, 'import');
  const users: StoredUser[] = [];
  const posts: Post[] = [];
  let added = 0;
  let characters = 0;
  let lineNumber = 0;
  let end: EndRecord | undefined;

  // Users before posts: a post's user may wait in the same batch.
  const flush = async (): Promise<void> => {
    if (users.length > 0) added += await store.importUsers(users.splice(0));
    if (posts.length > 0) added += await store.importPosts(posts.splice(0));
    characters = 0;
    progress.update(digest.records);
  };
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    lineNumber += 1;
    if (line.trim() === '') continue;
    if (end !== undefined) throw new Error(`line ${lineNumber} stands behind the end of the export`);
    const record = parseLine(line, lineNumber);
    if ('end' in record) end = record.end;
    else if ('user' in record) {
      users.push(record.user);
      digest.add(userLine(record.user));
    } else {
      posts.push(record.post);
      digest.add(postLine(record.post));
    }
    characters += line.length;
    if (users.length + posts.length >= batchLimits.users || characters >= batchLimits.characters)
      await flush();
  }
  await flush();
  progress.finish();
  if (end !== undefined) {
    if (end.records !== digest.records || end.sha256 !== digest.digest()) {
      throw new Error(`the file is damaged: its checksum is of ${end.records} other records`);
    }
    await store.continueIds(end);
  }
  return { added, records: digest.records, sha256: end?.sha256 };
}

function parseLine(line: string, lineNumber: number): ImportRecord {
  try {
    const value: unknown = JSON.parse(line);
    const { type, ...fields } = parseRecord('the record', value, recordFields);
    if (type === 'user') return { user: parseUser(fields) };
    if (type === 'post') return { post: parsePost(fields) };
    if (type === 'end') return { end: parseEnd(fields) };
    throw invalid('type', 'must be user, post or end');
  } catch (error) {
    const problem =
      error instanceof SyntaxError ? 'is not JSON' : error instanceof Error ? error.message : error;
    throw new Error(`line ${lineNumber}: ${problem}`, { cause: error });
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
