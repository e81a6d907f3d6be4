import { isUtf8 } from 'node:buffer';
import { createHash, hash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { getHeapStatistics } from 'node:v8';
import { invalid } from '../domain/errors.ts';
import { bodiesOf, type Row } from '../domain/kinds.ts';
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
import type { Store, StoreSummary } from '../domain/repository.ts';
import { tables } from '../storage/tables.ts';
import type { Progress } from './progress.ts';

type Fields = Readonly<Record<string, unknown>>;
type LastIds = Readonly<Record<RecordKind, number>>;

// The most records in a batch. They share a commit and pages of indexes, so a database writes far fewer bytes.
const maxBatchRows = 10_000;
// A store returns posts before their length is known. The longest, of 40 KB each, must fit into the heap together with
// their lines and their text.
const maxPostsPerRead = Math.min(2_500, Math.floor(getHeapStatistics().heap_size_limit / (512 * 1024)));
// The number of rows before the length of a record is known.
const firstBatchRows = 100;
// The approximate length of a batch. From a store, the rows are estimated by those of the previous batch, so it may be
// ten times as long or more.
export const batchCharacters = 4_000_000;
// The longest record, a post with a body of 10,000 characters of 12 escaped bytes each, has about 120 KB.
const maxLineBytes = 256 * 1024;

/** A record as a line of NDJSON, with its fields in the order of its table. Equal records have equal lines. */
function toLine(kind: RecordKind, row: object): string {
  const given = row as Fields;
  const fields: Record<string, unknown> = { type: nameOf(kind) };
  for (const { field } of tables[kind].columns) fields[field] = given[field];
  // Posts of older exports have no version, and the checksums of these exports stay valid.
  if (kind === 'posts' && given['version'] === 1) fields['version'] = undefined;
  return JSON.stringify(fields);
}

function parseRow(kind: RecordKind, { version = 1, ...draft }: Record<string, unknown>): Row {
  const ids: Record<string, number> = {};
  for (const { field } of tables[kind].keys) {
    ids[field] = parseInteger(field, draft[field], 1);
    delete draft[field];
  }
  const row = { ...ids, version: parseInteger('version', version, 1, maxVersion) };
  // The keys of the table and the fields of a draft together are all fields of a record.
  return { ...row, ...bodiesOf[kind].parseDraft(draft) } as Row;
}

export function countOf(summary: StoreSummary): number {
  return recordKinds.reduce((sum, kind) => sum + summary[kind].count, 0);
}

export interface Batch {
  readonly rows: Readonly<Record<RecordKind, Row[]>>;
  /** The same records as lines of NDJSON, in the order of their source. */
  readonly lines: string[];
  /** The end record of an export, which is in its last batch. */
  end?: EndRecord;
}

/** The number of records, and a digest of their lines in order: equal stores have equal digests. */
interface Content {
  readonly records: number;
  readonly sha256: string;
}

/** The last line of an export, which describes the lines before it. */
interface EndRecord extends Content {
  readonly lastIds: LastIds;
}

/** Passes all batches to `take`, and returns what they contain. With `lastIds`, adds one with an end record. */
export async function readAll(
  batches: AsyncIterable<Batch>,
  progress: Progress,
  take: (batch: Batch) => Promise<unknown> = async () => undefined,
  lastIds?: LastIds,
): Promise<Content & { readonly end: EndRecord | undefined }> {
  const digest = createHash('sha256');
  let records = 0;
  let end: EndRecord | undefined;
  for await (const batch of batches) {
    const taken = take(batch);
    // Computed while the batch is being written.
    for (const line of batch.lines) digest.update(line).update('\n');
    await taken;
    records += batch.lines.length;
    end = batch.end;
    progress.update(records);
  }
  const content = { records, sha256: digest.digest('hex') };
  if (lastIds) await take({ ...emptyBatch(), lines: [endLine({ ...content, lastIds })] });
  progress.finish();
  return { ...content, end };
}

/**
 * All records of a store, in the order in which they can be imported. With `lastIds`, records created meanwhile are
 * left out: posts are read after users, so the user of a new post could be missing.
 */
export async function* readStore(store: Store, lastIds?: LastIds): AsyncGenerator<Batch, void> {
  for (const kind of recordKinds) yield* readKind(store, kind, lastIds);
}

async function* readKind(store: Store, kind: RecordKind, lastIds?: LastIds): AsyncGenerator<Batch, void> {
  const { keys } = tables[kind];
  // Check the user of a post too, because PostgreSQL reads the last id of posts later than that of users.
  const isIncluded = (row: Row) =>
    !lastIds || keys.every(({ field, parent = kind }) => Reflect.get(row, field) <= lastIds[parent]);
  const maxRows = kind === 'users' ? maxBatchRows : maxPostsPerRead;
  let [afterId, count] = [0, firstBatchRows];
  for (;;) {
    const rows = (await store.exportRows(kind, afterId, count)).filter(isIncluded);
    const last = rows.at(-1);
    // A batch without included rows has only records that were created during the export, and so have all later ones.
    if (last === undefined) return;
    const lines = rows.map((row) => toLine(kind, row));
    const characters = lines.reduce((sum, line) => sum + line.length, 0);
    yield { rows: { ...emptyBatch().rows, [kind]: rows }, lines };
    const fitting = Math.ceil((batchCharacters * rows.length) / characters);
    [afterId, count] = [last.id, Math.min(maxRows, fitting)];
  }
}

export async function* readFile(path: string): AsyncGenerator<Batch, void> {
  let batch = emptyBatch();
  let characters = 0;
  let lineNumber = 0;
  await using file = await open(path);
  for await (const bytes of readLines(file)) {
    lineNumber += 1;
    if (bytes.length > maxLineBytes)
      throw new Error(`line ${lineNumber} is longer than ${maxLineBytes} bytes`);
    if (!isUtf8(bytes)) throw new Error(`line ${lineNumber} is not valid UTF-8`);
    const line = bytes.toString();
    if (line.trim() === '') continue;
    if (batch.end !== undefined) throw new Error(`line ${lineNumber} follows the end record of the export`);
    if (batch.lines.length >= maxBatchRows || characters >= batchCharacters) {
      yield batch;
      batch = emptyBatch();
      characters = 0;
    }
    addLine(line, lineNumber, batch);
    characters += line.length;
  }
  yield batch;
}

/**
 * The bytes of each line. Stops in the middle of a line that is too long. `FileHandle.readLines` would also end a line
 * at U+2028 and U+2029, which a JSON text may contain.
 */
async function* readLines(file: FileHandle): AsyncGenerator<Buffer, void> {
  let rest = '';
  // In this encoding, each byte is a character.
  for await (const chunk of file.createReadStream({ encoding: 'latin1' })) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield Buffer.from(line, 'latin1');
    if (rest.length > maxLineBytes) break;
  }
  yield Buffer.from(rest, 'latin1');
}

function emptyBatch(): Batch {
  return { rows: byKind(() => []), lines: [] };
}

/** Adds the record of a line to a batch. An error names the line. */
function addLine(line: string, lineNumber: number, batch: Batch): void {
  try {
    // A text editor may have added a byte order mark, which counts as white space here.
    const value: unknown = JSON.parse(line.trimStart());
    // Checks only that it is an object. The parser of its kind checks the fields.
    const { type, ...fields }: Fields = parseRecord('the record', value, Object.keys(Object(value)));
    const kind = recordKinds.find((one) => nameOf(one) === type);
    if (kind !== undefined) {
      const row = parseRow(kind, fields);
      batch.rows[kind].push(row);
      batch.lines.push(toLine(kind, row));
    } else if (type === 'end') batch.end = parseEnd(fields);
    else throw invalid('type', `must be ${recordKinds.map(nameOf).join(', ')} or end`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw new Error(`line ${lineNumber}`, { cause: error });
    const hint = line.startsWith('> ') ? '; npm wrote it: export with npm start --silent -- export' : '';
    throw new Error(`line ${lineNumber} is not JSON: ${quote(line.trimEnd())}${hint}`);
  }
}

/** Imports a batch, parents before their children, and resolves to the number of new records. */
export async function importBatch(target: Store, { rows }: Batch): Promise<number> {
  let added = 0;
  for (const kind of recordKinds)
    if (rows[kind].length > 0) added += await target.importRows(kind, rows[kind]);
  return added;
}

/** The field of the end record that contains the last assigned id, such as `lastUserId`. */
function lastIdField(kind: RecordKind): string {
  return `last${nameOf(kind).replace(/^./, (first) => first.toUpperCase())}Id`;
}

function endLine({ records, sha256, lastIds }: EndRecord): string {
  const ids = recordKinds.map((kind) => [lastIdField(kind), lastIds[kind]]);
  const fields = { records, sha256, ...Object.fromEntries(ids) };
  return JSON.stringify({ type: 'end', ...fields, endSha256: digestOf(fields) });
}

// The digest of the end record. It reveals a damaged last id, with which the target would assign ids again.
const digestOf = (fields: Fields): string => hash('sha256', JSON.stringify(fields));

function parseEnd({ endSha256, ...fields }: Fields): EndRecord {
  // Earlier exports have no such digest.
  if (endSha256 !== undefined && endSha256 !== digestOf(fields))
    throw new Error('the end record is damaged: it does not match its checksum');
  const idFields = byKind(lastIdField);
  const known = ['records', 'sha256', ...Object.values(idFields)];
  const { records, sha256, ...ids }: Fields = parseRecord('the end record', fields, known);
  return {
    records: parseInteger('records', records, 0, Number.MAX_SAFE_INTEGER),
    sha256: String(sha256),
    // An export of a release that did not have a kind of records lacks its last id.
    lastIds: byKind((kind) => parseInteger(idFields[kind], ids[idFields[kind]] ?? 0, 0)),
  };
}
