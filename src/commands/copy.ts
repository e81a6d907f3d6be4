import type { Store } from '../domain/repository.ts';
import { openStore } from '../storage/open.ts';
import { type CommandContext, runCommand, UsageError, usageOf } from './command.ts';
import { parseDatabaseUrl, readArguments } from './command-line.ts';
import { createProgress } from './progress.ts';
import {
  openSource,
  postBatches,
  postLine,
  RecordDigest,
  recordBatches,
  userBatches,
  userLine,
} from './records.ts';

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
  const [from, to] = await Promise.all([source.summary(), target.summary()]);
  const total = from.users + from.posts;
  await checkTarget(source, target, to.users + to.posts);

  const digest = new RecordDigest();
  const copying = createProgress(stderr, 'copy', total);
  for await (const batch of recordBatches(source)) {
    const writing = batch.importInto(target);
    digest.add(batch.lines());
    await writing;
    copying.update(digest.records);
  }
  await target.continueIds(from);
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
  stdout.write(`copied ${from.users} users and ${from.posts} posts, sha256 ${digest.digest()}\n`);
}

/**
 * Refuses a target that holds what the source does not: only an earlier, interrupted copy may be
 * there. Both are walked in the order of ids, before anything is written.
 */
async function checkTarget(source: Store, target: Store, targetRecords: number): Promise<void> {
  if (targetRecords === 0) return;
  await checkSubset(userBatches(target), userBatches(source), userLine, 'user');
  await checkSubset(postBatches(target), postBatches(source), postLine, 'post');
}

async function checkSubset<T extends { readonly id: number }>(
  targetBatches: AsyncIterable<readonly T[]>,
  sourceBatches: AsyncIterable<readonly T[]>,
  line: (row: T) => string,
  what: string,
): Promise<void> {
  const source = rows(sourceBatches);
  for await (const there of rows(targetBatches)) {
    let next = await source.next();
    while (next.done !== true && next.value.id < there.id) next = await source.next();
    if (next.done === true || line(next.value) !== line(there)) {
      throw new Error(`the target holds something else: ${what} ${there.id} is not the source's`);
    }
  }
  await source.return();
}

async function* rows<T>(batches: AsyncIterable<readonly T[]>): AsyncGenerator<T, void> {
  for await (const batch of batches) yield* batch;
}
