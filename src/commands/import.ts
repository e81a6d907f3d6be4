import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { openStore } from '../storage/open.ts';
import { type CommandContext, runCommand } from './command.ts';
import { databaseUrl, readArguments } from './command-line.ts';
import { createProgress, type Progress } from './progress.ts';
import { type EndRecord, RecordBatch, RecordDigest } from './records.ts';

const help = `usage: users-service import [FILE] [--database URL] [--partial]

Reads NDJSON as export writes it. The whole file is checked before anything is imported. Rows that are
in the store already are left, so an interrupted import can be run again.

  FILE            the file to import [the standard input]
  --database URL  the store: sqlite:PATH or postgres://… [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
  --partial       take a file without the end record of an export, such as one written by hand
`;

interface Content {
  readonly records: number;
  readonly sha256: string;
  readonly end: EndRecord | undefined;
}

/** Reads the file twice: records of a damaged file would conflict with those of the right one later. */
export function importRecords(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const given = readArguments(context.args, ['database'], { switches: ['partial'], positionals: 1 });
    const [name = '-'] = given.positionals;
    const url = databaseUrl(given, context.env);
    await using cleanup = new AsyncDisposableStack();
    const file = name === '-' ? await spool(context.stdin, cleanup) : name;
    const content = await checkFile(file, given.flags['partial'] !== undefined, context);
    const store = cleanup.adopt(await openStore(url), (opened) => opened.close());

    const progress = createProgress(context.stderr, 'import', content.records);
    let added = 0;
    const read = await readRecords(file, progress, async (batch) => {
      added += await batch.importInto(store);
    });
    if (read.sha256 !== content.sha256) throw new Error('the file changed while it was imported');
    if (content.end !== undefined) await store.continueIds(content.end.lastIds);
    progress.finish();
    context.stdout.write(
      `imported ${added} new of ${read.records} record${read.records === 1 ? '' : 's'}, sha256 ${read.sha256}\n`,
    );
  });
}

/** Writes the input to a temporary file, because it has to be read twice. */
async function spool(input: Readable, cleanup: AsyncDisposableStack): Promise<string> {
  const folder = cleanup.adopt(await mkdtemp(join(tmpdir(), 'users-import-')), (path) =>
    rm(path, { recursive: true }),
  );
  const file = join(folder, 'records.ndjson');
  await pipeline(input, createWriteStream(file, { mode: 0o600 }));
  return file;
}

/** Fails unless every record can be read, and the end record is there and right. */
async function checkFile(file: string, isPartial: boolean, { stderr }: CommandContext): Promise<Content> {
  const progress = createProgress(stderr, 'check');
  const content = await readRecords(file, progress, async () => undefined);
  progress.finish();
  const { end, records, sha256 } = content;
  if (end === undefined && records === 0) {
    throw new Error('the file is empty: even the export of an empty store has an end record');
  }
  if (end === undefined && !isPartial) {
    throw new Error(
      `the file has no end record after ${records} records: it was cut, or is no whole export; --partial imports it as it is`,
    );
  }
  if (end !== undefined && (end.records !== records || end.sha256 !== sha256)) {
    throw new Error(
      `the file is damaged: its ${records} records do not have the checksum of the ${end.records} exported`,
    );
  }
  return content;
}

/** Reads a file line by line and passes its records to `take` in batches. */
async function readRecords(
  file: string,
  progress: Progress,
  take: (batch: RecordBatch) => Promise<void>,
): Promise<Content> {
  const digest = new RecordDigest();
  let batch = new RecordBatch();
  let lineNumber = 0;
  let end: EndRecord | undefined;

  const flush = async (): Promise<void> => {
    await take(batch);
    batch = new RecordBatch();
    progress.update(digest.records);
  };
  await using handle = await open(file);
  for await (const line of handle.readLines()) {
    lineNumber += 1;
    if (line.trim() === '') continue;
    if (end !== undefined) throw new Error(`line ${lineNumber} follows the end record of the export`);
    const record = batch.read(line, lineNumber);
    if (typeof record !== 'string') end = record;
    else {
      digest.add([record]);
      if (batch.isFull) await flush();
    }
  }
  await flush();
  return { records: digest.records, sha256: digest.digest(), end };
}
