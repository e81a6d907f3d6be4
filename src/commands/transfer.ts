import { mkdtempDisposable, open, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { byKind } from '../domain/record.ts';
import type { Store } from '../domain/repository.ts';
import { openStore, persistentUrlForms, type StoreOptions, schemeOf } from '../storage/open.ts';
import { syncFolder } from '../storage/sync.ts';
import { adopt, type Command, cleanUps, print, wrap, write } from './command-line.ts';
import { failedAt, UsageError, usageOf, withoutPasswords } from './errors.ts';
import { openStream } from './files.ts';
import { createProgress, type Progress } from './progress.ts';
import { type Batch, countOf, importBatch, readAll, readFile, readStore } from './records.ts';
import { checkedUrl, databaseUrl } from './settings.ts';

const databaseHelp = `  --database URL  ${wrap(`the store: ${persistentUrlForms}`, ' '.repeat(18))}
                  [sqlite:./data/users.db] (DATABASE_URL in the environment)
`;

const copyHelp = `usage: users-service copy --from URL --to URL

Copies a whole store into another, with ids, versions and posts, and compares
checksums at the end. You may interrupt it and run it again. Stop writing to the
source first. Otherwise the copy fails, or with --changes-kept off may lack
changes; then repeat it into an empty store.
A source with an older schema is migrated.

  --from URL  ${wrap(`the store to read: ${persistentUrlForms}`, ' '.repeat(14))}
  --to URL    the store to fill; it must be empty or contain an earlier copy
`;

export const copy: Command = {
  help: copyHelp,
  flags: ['from', 'to'],
  async run({ stdout, stderr }, { flags: { from: fromUrl, to: toUrl } }) {
    if (fromUrl === undefined || toUrl === undefined) throw usageOf(copyHelp);
    checkedUrl({ label: '--from', text: fromUrl });
    checkedUrl({ label: '--to', text: toUrl });
    if (fromUrl === toUrl) throw new UsageError('--from and --to are the same store');
    for (const url of [fromUrl, toUrl]) checkPersistent(url);
    await using source = await openPersistent(fromUrl, stderr, { mustExist: true });
    await using target = await openPersistent(toUrl, stderr);
    // Before the first record is read: at the end, another position reveals a write during the copy.
    const position = await source.changes?.position();
    const summary = await source.summary();
    const [total, lastIds] = [countOf(summary), byKind((kind) => summary[kind].lastId)];
    // The target may hold an interrupted copy and nothing else: compare all of it before the first write.
    await checkSubset(target, source, createProgress(stderr, 'compare', countOf(await target.summary())));
    // First, as in `import`.
    await target.continueIds(lastIds);
    const progress = createProgress(stderr, 'copy', total);
    const read = await readAll(readStore(source, lastIds), progress, (batch) => importBatch(target, batch));
    const copied = await readAll(readStore(target), createProgress(stderr, 'verify', total));
    if (copied.sha256 !== read.sha256)
      throw new Error(
        `the copy differs: ${read.records} records were read and ${copied.records} are there; stop writing to both stores, and copy into an empty one`,
      );
    if ((await source.changes?.position()) !== position)
      throw new Error(
        'the source was written while it was copied; stop writing to it, and copy into an empty store',
      );
    await print(stdout, `copied ${countText(read.records)}, sha256 ${read.sha256}\n`);
  },
};

/** Fails unless the source contains every record of the target. Both return their lines in the same order. */
async function checkSubset(target: Store, source: Store, progress: Progress): Promise<void> {
  const wanted = linesOf(source);
  await readAll(readStore(target), progress, async ({ lines }) => {
    for (const line of lines) {
      let next = await wanted.next();
      while (next.done !== true && next.value !== line) next = await wanted.next();
      if (next.done !== true) continue;
      const { type, id } = JSON.parse(line);
      throw new Error(`the target contains other records: ${type} ${id} is not in the source`);
    }
  });
}

async function* linesOf(store: Store): AsyncGenerator<string, void> {
  for await (const batch of readStore(store)) yield* batch.lines;
}

/** Opens a store for a command that reads or writes all of it. */
export async function openPersistent(url: string, stderr: Writable, options?: StoreOptions): Promise<Store> {
  checkPersistent(url);
  // One statement counts all records of a large store, or adds thousands.
  const statementTimeoutMs = 3_600_000;
  const onWarning = (message: string) => stderr.write(`users-service: ${message}\n`);
  return await openStore(url, { statementTimeoutMs, onWarning, ...options });
}

/** Throws a `UsageError` for a store whose records end with its process. */
function checkPersistent(url: string): void {
  if (schemeOf(url)?.persistent === undefined)
    throw new UsageError(`${url} loses its records when its process ends`);
}

export const exportRecords: Command = {
  help: `usage: users-service export [FILE] [--database URL]

Writes a whole store as NDJSON: one line of JSON for each record, and a last
line with a checksum. A store with an older schema is migrated first.

  FILE            the file to write; it must not exist yet [standard output]
${databaseHelp}`,
  flags: ['database'],
  positionals: 1,
  async run(context, { flags, positionals: [path = '-'] }) {
    const { env, stdout, stderr } = context;
    await using removing = cleanUps(context);
    await using store = await openPersistent(databaseUrl(flags, env), stderr, { mustExist: true });
    // Read first, as the limit of the export: the importing store continues after these ids.
    const summary = await store.summary();
    const lastIds = byKind((kind) => summary[kind].lastId);
    // Never overwrite an existing file, which may be the only other copy.
    const opening = path === '-' ? undefined : open(path, 'wx', 0o600);
    let isComplete = false;
    const removeIncomplete = async () => (isComplete ? undefined : await rm(path));
    await using file = opening && (await adopt(removing, opening, removeIncomplete));
    const add = ({ lines }: Batch) => {
      const text = `${lines.join('\n')}\n`;
      return file === undefined ? write(stdout, text) : file.writeFile(text).catch(failedAt(path));
    };
    // A bar on the same terminal would mix with the records.
    const sink = path === '-' && stdout.isTTY ? { write: () => undefined } : stderr;
    const progress = createProgress(sink, 'export', countOf(summary));
    const { records, sha256 } = await readAll(readStore(store, lastIds), progress, add, lastIds);
    await file?.sync().catch(failedAt(path));
    isComplete = true;
    if (file) await syncFolder(dirname(path));
    // A signal during the sync has removed the file.
    if (file && !removing.disposed)
      await print(stdout, `exported ${countText(records)} to ${path}, sha256 ${sha256}\n`);
  },
};

export const importRecords: Command = {
  help: `usage: users-service import [FILE] [--database URL] [--partial]

Imports NDJSON as export writes it. Checks the whole file first. Skips records
that the store already has, so you may run an interrupted import again. A
conflict with a record of the store ends the import; earlier batches stay.

  FILE            the file to import [standard input]
${databaseHelp}  --partial       accept a file without the end record of an export, such as
                  one written by hand; users before their posts, no id twice
`,
  flags: ['database'],
  switches: ['partial'],
  positionals: 1,
  async run(context, { flags, positionals: [path = '-'] }) {
    const { env, stdin, stdout, stderr } = context;
    const url = databaseUrl(flags, env);
    checkPersistent(url);
    await using removing = cleanUps(context);
    const input = path === '-' ? stdin : await openStream(path);
    const file = input === undefined ? path : await spool(input, removing);
    // Check all records first, because records of a damaged file would later conflict with the correct ones.
    let lastIds = byKind(() => 0);
    const checked = await readAll(readFile(file), createProgress(stderr, 'check'), async ({ rows }) => {
      lastIds = byKind((kind) => rows[kind].reduce((last, { id }) => Math.max(last, id), lastIds[kind]));
    });
    checkEnd(checked, flags['partial'] !== undefined);
    const { end, records, sha256 } = checked;
    await using store = await openPersistent(url, stderr);
    // First, because ids that the store assigns meanwhile, or after an interruption, must not be those of the file.
    await store.continueIds(end?.lastIds ?? lastIds);
    let added = 0;
    const progress = createProgress(stderr, 'import', records);
    const imported = await readAll(readFile(file), progress, async (batch) => {
      added += await importBatch(store, batch);
    });
    if (imported.sha256 !== sha256) throw new Error('the file changed while it was imported');
    // Names the store: by default, it is in the working folder, and new if it was missing.
    const result = `imported ${added} new of ${countText(records)} into ${withoutPasswords(url)}`;
    await print(stdout, `${result}, sha256 ${sha256}\n`);
  },
};

/** Throws unless the content of a file matches its end record, which only a partial file may lack. */
function checkEnd({ end, records, sha256 }: Awaited<ReturnType<typeof readAll>>, isPartial: boolean): void {
  if (end === undefined && records === 0)
    throw new Error('the file is empty: even the export of an empty store has an end record');
  if (end === undefined && !isPartial)
    throw new Error(
      `the file has no end record after ${records} records: it is truncated or not a complete export; use --partial to import it anyway`,
    );
  if (end !== undefined && (end.records !== records || end.sha256 !== sha256))
    throw new Error(
      `the file is damaged: the checksum of its ${records} records is not that of the ${end.records} exported`,
    );
}

function countText(records: number): string {
  return `${records} record${records === 1 ? '' : 's'}`;
}

/** Writes the input to a temporary file, because it has to be read twice. */
async function spool(input: Readable, removing: AsyncDisposableStack): Promise<string> {
  const making = mkdtempDisposable(join(tmpdir(), 'users-import-'));
  const folder = await adopt(removing, making, (made) => made.remove());
  const file = join(folder.path, 'records.ndjson');
  await writeFile(file, input, { mode: 0o600 }).catch((error) =>
    // Not an error of the input.
    error.syscall === 'write' ? failedAt(file)(error) : Promise.reject(error),
  );
  return file;
}
