import { randomUUID } from 'node:crypto';
import { existsSync, lstatSync } from 'node:fs';
import { mkdtempDisposable, realpath, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { DomainError, messageOf } from '../../domain/errors.ts';
import { syncFolder } from '../sync.ts';
import type { BackupProgress, Scratch } from '../tools.ts';
import { diskError } from './errors.ts';
import { checkWritable, makeFile, nearestFolder, realPath } from './file.ts';
import { openShared, requireTables } from './schema.ts';

// About 4 MiB at a time: few steps are fast, but there must be enough of them to show progress.
const pagesPerStep = 1_000;
// The limit for a process that locks the file, such as a starting service.
const busyTimeoutMs = 1_000;

/**
 * Copies a SQLite file, which may be in use, to `target` in its state at the start of the copy. The target is complete
 * or absent, and an existing file is never overwritten. Fails if the file is damaged, or is not one of this service.
 */
export async function backupSqlite(path: string, target: string, onProgress: BackupProgress = () => {}) {
  const [from, to] = [resolve(path), resolve(target)];
  const part = `${to}.${randomUUID()}.part`;
  try {
    refuseExisting(to);
    if (!existsSync(from)) throw new Error('there is no such file');
    const source = await realpath(from);
    checkWritable(source);
    makeFile(part);
    // SQLite syncs the copy before it removes its journal.
    await copy(source, part, onProgress);
    checkIntact(part);
    // Check again after the long copy, because a rename replaces an existing file.
    refuseExisting(to);
    await rename(part, to);
    await syncFolder(dirname(to));
  } catch (caught) {
    const message = `cannot back up ${from} to ${to}: ${messageOf(diskError(caught) ?? caught)}`;
    throw new DomainError('unavailable', message, { cause: caught });
  } finally {
    // On a full disk, SQLite leaves the journal. Report the original error, not the one from cleaning up.
    for (const file of [part, `${part}-journal`]) await rm(file, { force: true }).catch(() => undefined);
  }
}

function refuseExisting(path: string): void {
  // A link exists even if it leads nowhere.
  const exists = (place: string) => lstatSync(place, { throwIfNoEntry: false }) !== undefined;
  if (exists(path)) throw new Error('the target exists already');
  // SQLite would apply the log or the journal of an earlier file to the copy.
  const stale = ['-wal', '-journal'].map((suffix) => path + suffix).find(exists);
  if (stale !== undefined) throw new Error(`${stale} of an earlier file exists`);
}

async function copy(from: string, to: string, onProgress: BackupProgress): Promise<void> {
  // Not read-only: a read-only connection cannot remove the log if it is the last one to close.
  using db = await openShared(from, busyTimeoutMs, (opened) => {
    requireTables(opened);
    // The transaction keeps the current state for all steps. Without it, each write would restart the copy.
    opened.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
  });
  const pages = await backup(db, to, {
    rate: pagesPerStep,
    progress: ({ totalPages, remainingPages }) => onProgress(totalPages - remainingPages, totalPages),
  });
  onProgress(pages, pages);
}

/** Throws if a file that no process uses is damaged. SQLite copies damaged pages without an error. */
function checkIntact(path: string): void {
  const url = pathToFileURL(path);
  url.search = 'immutable=1';
  using db = new DatabaseSync(url, { readOnly: true });
  const { quick_check: problem } = { ...db.prepare('PRAGMA quick_check(1)').get() };
  if (problem !== 'ok') throw new Error(`the database is damaged: ${problem}`);
}

/** Files in a separate folder beside the real file of a database, so that they are on the same disk. */
export async function openSqliteScratch(path: string): Promise<Scratch> {
  const file = realPath(path);
  const prefix = join(nearestFolder(dirname(file)), `${basename(file)}.verify-`);
  const { path: folder, remove } = await mkdtempDisposable(prefix);
  return { next: async () => `sqlite:${join(folder, `${randomUUID()}.db`)}`, remove };
}
