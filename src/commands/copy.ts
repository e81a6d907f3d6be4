import { byKind, recordKinds, type Store } from '../domain/repository.ts';
import { openStore } from '../storage/open.ts';
import { type CommandContext, runCommand, UsageError, usageOf } from './command.ts';
import { parseDatabaseUrl, readArguments } from './command-line.ts';
import { createProgress } from './progress.ts';
import { checkSubset, countRecords, openSource, RecordDigest, recordBatches } from './records.ts';

const help = `usage: users-service copy --from URL --to URL

Copies a whole store into another: ids, versions and posts, compared by checksums at the end. It may be
interrupted and run again. Stop writing to the source first.

  --from URL  the store to read: sqlite:PATH or postgres://…
  --to URL    the store to fill; it may hold nothing but an earlier copy
`;

/**
 * Copies a whole store into another: `copy --from URL --to URL`. Safe to interrupt and to run again,
 * because rows that are there already are left; ends by reading both and comparing.
 */
export function copy(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const { from, to } = readArguments(context.args, ['from', 'to']).flags;
    if (from === undefined || to === undefined) throw usageOf(help);
    parseDatabaseUrl('--from', from);
    parseDatabaseUrl('--to', to);
    if (from === to) throw new UsageError('--from and --to must differ');
    await using stores = new AsyncDisposableStack();
    const source = stores.adopt(await openSource(from), (store) => store.close());
    const target = stores.adopt(await openStore(to), (store) => store.close());
    await copyStore(context, source, target);
  });
}

async function copyStore({ stdout, stderr }: CommandContext, source: Store, target: Store): Promise<void> {
  const from = await source.summary();
  const total = recordKinds.reduce((sum, kind) => sum + from[kind].count, 0);
  // Only an earlier, interrupted copy may be there: all is compared before anything is written.
  if ((await countRecords(target)) > 0) await checkSubset(target, source);

  const digest = new RecordDigest();
  const copying = createProgress(stderr, 'copy', total);
  for await (const batch of recordBatches(source)) {
    const writing = batch.importInto(target);
    digest.add(batch.lines());
    await writing;
    copying.update(digest.records);
  }
  await target.continueIds(byKind((kind) => from[kind].lastId));
  copying.finish();

  const verifying = createProgress(stderr, 'verify', total);
  const copied = new RecordDigest();
  for await (const batch of recordBatches(target)) {
    copied.add(batch.lines());
    verifying.update(copied.records);
  }
  verifying.finish();
  if (copied.records !== digest.records || copied.digest() !== digest.digest()) {
    throw new Error(
      `the copy differs: ${digest.records} records were read and ${copied.records} are there; ` +
        'stop writing to both stores and run it again',
    );
  }
  const counts = recordKinds.map((kind) => `${from[kind].count} ${kind}`).join(' and ');
  stdout.write(`copied ${counts}, sha256 ${digest.digest()}\n`);
}
