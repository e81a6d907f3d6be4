import { createWriteStream } from 'node:fs';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { byKind } from '../domain/record.ts';
import type { Store, StoreSummary } from '../domain/repository.ts';
import { type CommandContext, runCommand } from './command.ts';
import { databaseUrl, readArguments } from './command-line.ts';
import { createProgress, type Progress } from './progress.ts';
import { countOf, endLine, openSource, RecordDigest, recordBatches } from './records.ts';

const help = `usage: users-service export [FILE] [--database URL]

Writes a whole store as NDJSON, a JSON line a record, and a checksum as the last.

  FILE            where to, a file that is not there yet [the output]
  --database URL  the store: sqlite:PATH or postgres://… [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
`;

export function exportRecords(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const given = readArguments(context.args, ['database'], { positionals: 1 });
    const [file = '-'] = given.positionals;
    await using stores = new AsyncDisposableStack();
    const store = stores.adopt(await openSource(databaseUrl(given, context.env)), (opened) => opened.close());
    // Read first: an id given while we write must not be given again by the importing store.
    const summary = await store.summary();
    const progress = createProgress(context.stderr, 'export', countOf(summary));
    // An existing file may be the only other copy: it is not overwritten.
    const output: Writable = file === '-' ? context.stdout : createWriteStream(file, { flags: 'wx' });
    await pipeline(lines(store, summary, progress), output, { end: file !== '-' });
    progress.finish();
  });
}

async function* lines(store: Store, summary: StoreSummary, progress: Progress): AsyncGenerator<string> {
  const digest = new RecordDigest();
  for await (const batch of recordBatches(store)) {
    const lines = batch.lines();
    digest.add(lines);
    progress.update(digest.records);
    yield `${lines.join('\n')}\n`;
  }
  const lastIds = byKind((kind) => summary[kind].lastId);
  yield `${endLine({ records: digest.records, sha256: digest.digest(), lastIds })}\n`;
}
