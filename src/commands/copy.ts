import { byKind, nameOf, recordKinds } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import { openStore } from '../storage/open.ts';
import { type CommandContext, runCommand, UsageError, usageOf } from './command.ts';
import { checkDatabaseUrl, readArguments } from './command-line.ts';
import { createProgress, type Progress } from './progress.ts';
import { checkSubset, countOf, openSource, RecordDigest, recordBatches } from './records.ts';

const help = `usage: users-service copy --from URL --to URL

Copies a whole store into another: ids, versions and posts, compared by checksums at the end. It may be
interrupted and run again. Stop writing to the source first.

  --from URL  the store to read: sqlite:PATH or postgres://…
  --to URL    the store to fill; it may hold nothing but an earlier copy
`;

export function copy(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const { from, to } = readArguments(context.args, ['from', 'to']).flags;
    if (from === undefined || to === undefined) throw usageOf(help);
    checkDatabaseUrl({ label: '--from', text: from });
    checkDatabaseUrl({ label: '--to', text: to });
    if (from === to) throw new UsageError('--from and --to must differ');
    await using stores = new AsyncDisposableStack();
    const source = stores.adopt(await openSource(from), (store) => store.close());
    const target = stores.adopt(await openStore(to), (store) => store.close());
    await copyStore(context, source, target);
  });
}

async function copyStore({ stdout, stderr }: CommandContext, source: Store, target: Store): Promise<void> {
  const from = await source.summary();
  // The target may hold an interrupted copy and nothing else: compare all of it before the first write.
  if (countOf(await target.summary()) > 0) await checkSubset(target, source);

  const read = await readAll(source, createProgress(stderr, 'copy', countOf(from)), target);
  await target.continueIds(byKind((kind) => from[kind].lastId));
  const copied = await readAll(target, createProgress(stderr, 'verify', countOf(from)));
  if (copied.records !== read.records || copied.digest() !== read.digest()) {
    throw new Error(
      `the copy differs: ${read.records} records were read and ${copied.records} are there; ` +
        'stop writing to both stores and run it again',
    );
  }
  const counts = recordKinds.map((kind) => {
    const { count } = from[kind];
    return `${count} ${count === 1 ? nameOf(kind) : kind}`;
  });
  stdout.write(`copied ${counts.join(' and ')}, sha256 ${read.digest()}\n`);
}

/** Reads a whole store, and writes it to the target if there is one. */
async function readAll(store: Store, progress: Progress, target?: Store): Promise<RecordDigest> {
  const digest = new RecordDigest();
  for await (const batch of recordBatches(store)) {
    const writing = target && batch.importInto(target);
    digest.add(batch.lines());
    await writing;
    progress.update(digest.records);
  }
  progress.finish();
  return digest;
}
