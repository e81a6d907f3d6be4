import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { access, open, rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { DomainError, messageOf } from '../../domain/errors.ts';
import { makeFile } from './file.ts';

/** Pages copied, and pages there are. */
export type BackupProgress = (done: number, total: number) => void;

// 4 MiB at a time: few enough steps to be quick, enough of them to show progress.
const pagesPerStep = 1_000;

/**
 * Copies a SQLite file that may be in use to `target`, as it is at the start of the copy. The target
 * is whole or absent, and never one that was there before. Resolves to the pages copied.
 */
export async function backupSqlite(
  path: string,
  target: string,
  onProgress?: BackupProgress,
): Promise<number> {
  const [from, to] = [resolve(path), resolve(target)];
  const part = `${to}.${randomUUID()}.part`;
  try {
    refuseExisting(to);
    // SQLite would make the file.
    await access(from);
    makeFile(part);
    const pages = await copy(from, part, onProgress);
    await sync(part);
    // Once more, since the copy took its time: a rename replaces what it finds.
    refuseExisting(to);
    await rename(part, to);
    await sync(dirname(to));
    return pages;
  } catch (caught) {
    const problem = messageOf(caught);
    throw new DomainError('unavailable', `cannot back up ${from} to ${to}: ${problem}`, { cause: caught });
  } finally {
    await rm(part, { force: true });
  }
}

function refuseExisting(path: string): void {
  if (existsSync(path)) throw new Error('the target exists already');
}

async function copy(from: string, to: string, onProgress: BackupProgress = () => undefined): Promise<number> {
  // Not read-only: such a connection cannot tidy up the log when it is the last to close.
  const db = new DatabaseSync(from);
  try {
    // Holds the present state for all steps; without it, each write elsewhere would restart the copy.
    db.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
    const progress = ({ totalPages, remainingPages }: { totalPages: number; remainingPages: number }) =>
      onProgress(totalPages - remainingPages, totalPages);
    const pages = await backup(db, to, { rate: pagesPerStep, progress });
    onProgress(pages, pages);
    return pages;
  } finally {
    db.close();
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
