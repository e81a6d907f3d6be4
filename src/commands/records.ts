import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { invalid } from '../domain/errors.ts';
import { parsePostDraft } from '../domain/post.ts';
import {
  byKind,
  maxVersion,
  nameOf,
  parseInteger,
  parseRecord,
  quote,
  type RecordKind,
  recordKinds,
} from '../domain/record.ts';
import type { Records, Store, StoreSummary } from '../domain/repository.ts';
import { parseUserDraft } from '../domain/user.ts';
import { openStore, schemeOf } from '../storage/open.ts';

type Fields = Readonly<Record<string, unknown>>;

/** How records of a kind are written as lines and read from them. */
interface RecordFormat<Row> {
  /** The field of the end record that holds the last id given. */
  readonly lastId: string;
  /** Most records in a batch. */
  readonly batchRows: number;
  readonly charactersOf: (row: Row) => number;
  /** One as a line of NDJSON. Equal records have equal lines. */
  readonly toLine: (row: Row) => string;
  readonly parse: (fields: Fields) => Row;
}

/**
 * The formats of all kinds. The rows of a batch share a commit and the pages of the indexes it touches:
 * with 10,000 of them SQLite writes a fifth of what it writes with 1,000.
 */
const formats: { readonly [Kind in RecordKind]: RecordFormat<Records[Kind]> } = {
  users: {
    lastId: 'lastUserId',
    batchRows: 10_000,
    charactersOf: ({ name }) => name.length,
    toLine: ({ id, name, role, version }) => JSON.stringify({ type: 'user', id, name, role, version }),
    parse: ({ id, version = 1, ...draft }) => ({
      id: parseInteger('id', id, 1),
      ...parseUserDraft(draft),
      version: parseInteger('version', version, 1, maxVersion),
    }),
  },
  posts: {
    lastId: 'lastPostId',
    batchRows: 2_500,
    charactersOf: ({ title, body }) => title.length + body.length,
    // The first version is left out, as it was before posts had versions: the checksums of older exports hold.
    toLine: ({ id, userId, title, body, version }) =>
      JSON.stringify({ type: 'post', id, userId, title, body, ...(version > 1 && { version }) }),
    parse: ({ id, userId, version = 1, ...draft }) => ({
      id: parseInteger('id', id, 1),
      userId: parseInteger('userId', userId, 1),
      ...parsePostDraft(draft),
      version: parseInteger('version', version, 1, maxVersion),
    }),
  },
};

// The number of rows with so many characters is estimated from the batch before. When long posts follow short
// ones, a batch can have 25 million characters.
export const batchCharacters = 4_000_000;
// Before the length of a record is known.
const firstBatchRows = 100;

/** Opens a store to read from: a file that is not there is a mistake, not an empty store. */
export async function openSource(url: string): Promise<Store> {
  const file = schemeOf(url)?.file?.(url);
  if (file !== undefined && !existsSync(file)) throw new Error(`there is no file ${file}`);
  return await openStore(url);
}

export function countOf(summary: StoreSummary): number {
  return recordKinds.reduce((sum, kind) => sum + summary[kind].count, 0);
}

/** Some records of one kind. */
interface Batch<Row> {
  readonly rows: readonly Row[];
  readonly lines: () => readonly string[];
  /** Resolves to how many of them were new. */
  readonly importInto: (target: Store) => Promise<number>;
}

/** All records of a store in batches, in the order in which they can be imported. */
export async function* recordBatches(store: Store): AsyncGenerator<Batch<unknown>, void> {
  for (const kind of recordKinds) yield* batchesOf(store, kind);
}

/** All records of a kind by id, in batches. */
export async function* batchesOf<Kind extends RecordKind>(
  store: Store,
  kind: Kind,
): AsyncGenerator<Batch<Records[Kind]>, void> {
  const { batchRows, charactersOf, toLine } = formats[kind];
  let next = store.exportRows(kind, 0, firstBatchRows);
  for (;;) {
    const rows = await next;
    const last = rows.at(-1);
    if (last === undefined) return;
    const characters = rows.reduce((sum, row) => sum + charactersOf(row), 0);
    const fitting = Math.ceil((batchCharacters * rows.length) / characters);
    // The next batch is read while this one is used. Its failure is reported when it is asked for.
    next = store.exportRows(kind, last.id, Math.min(batchRows, fitting));
    next.catch(() => undefined);
    yield { rows, lines: () => rows.map(toLine), importInto: (target) => target.importRows(kind, rows) };
  }
}

/** Fails unless every record of the target is one of the source. Both give their lines in the same order. */
export async function checkSubset(target: Store, source: Store): Promise<void> {
  const wanted = linesOf(source);
  for await (const line of linesOf(target)) {
    let next = await wanted.next();
    while (next.done !== true && next.value !== line) next = await wanted.next();
    if (next.done === true) {
      const { type, id } = JSON.parse(line);
      throw new Error(`the target holds something else: ${type} ${id} is not the source's`);
    }
  }
}

async function* linesOf(store: Store): AsyncGenerator<string, void> {
  for await (const batch of recordBatches(store)) yield* batch.lines();
}

/** A digest of lines in order: two stores with the same digest hold the same. */
export class RecordDigest {
  readonly #hash = createHash('sha256');
  records = 0;

  add(lines: readonly string[]): void {
    this.records += lines.length;
    for (const line of lines) this.#hash.update(line).update('\n');
  }

  digest(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** The last line of an export. */
export interface EndRecord {
  /** How many records come before it, and their digest. */
  readonly records: number;
  readonly sha256: string;
  readonly lastIds: Readonly<Record<RecordKind, number>>;
}

export function endLine({ records, sha256, lastIds }: EndRecord): string {
  const ids = recordKinds.map((kind) => [formats[kind].lastId, lastIds[kind]]);
  return JSON.stringify({ type: 'end', records, sha256, ...Object.fromEntries(ids) });
}

/** Records that were read, by kind, until they are imported together. */
export class RecordBatch {
  readonly #rows: Readonly<Record<RecordKind, Records[RecordKind][]>> = byKind(() => []);
  #count = 0;
  #characters = 0;

  /**
   * Reads a line of NDJSON. Takes its record, and returns it as an export would write it; or returns the end
   * record. Fails with a message that names the line.
   */
  read(line: string, lineNumber: number): string | EndRecord {
    try {
      const value: unknown = JSON.parse(line);
      // Each kind knows its own fields.
      const { type, ...fields }: Fields = parseRecord('the record', value, Object.keys(Object(value)));
      const kind = recordKinds.find((one) => nameOf(one) === type);
      if (kind !== undefined) return this.#add(kind, fields);
      if (type === 'end') return parseEnd(fields);
      throw invalid('type', `must be ${recordKinds.map(nameOf).join(', ')} or end`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw new Error(`line ${lineNumber}`, { cause: error });
      const hint = line.startsWith('> ') ? '; npm wrote it: export with npm start --silent -- export' : '';
      throw new Error(`line ${lineNumber} is not JSON: ${quote(line)}${hint}`);
    }
  }

  #add<Kind extends RecordKind>(kind: Kind, fields: Fields): string {
    const { parse, charactersOf, toLine } = formats[kind];
    const row = parse(fields);
    this.#rows[kind].push(row);
    this.#count += 1;
    this.#characters += charactersOf(row);
    return toLine(row);
  }

  get isFull(): boolean {
    return this.#count >= formats.users.batchRows || this.#characters >= batchCharacters;
  }

  /** Resolves to how many were new. Each kind comes after those that its records belong to. */
  async importInto(target: Store): Promise<number> {
    let added = 0;
    for (const kind of recordKinds) {
      if (this.#rows[kind].length > 0) added += await target.importRows(kind, this.#rows[kind]);
    }
    return added;
  }
}

function parseEnd({ records, sha256, ...ids }: Fields): EndRecord {
  if (typeof sha256 !== 'string') throw invalid('sha256', 'must be a string');
  return {
    records: parseInteger('records', records, 0, Number.MAX_SAFE_INTEGER),
    sha256,
    lastIds: byKind((kind) => parseInteger(formats[kind].lastId, ids[formats[kind].lastId], 0)),
  };
}
