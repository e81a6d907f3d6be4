import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  openSync,
  readSync,
  statSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { DomainError } from '../../domain/errors.ts';

/** The identities of the database, its log and the index of the log when they were opened. */
export interface OpenFiles {
  readonly path: string;
  /** The device and the inode number of each file. */
  readonly identities: readonly string[];
}

const suffixes = ['', '-wal', '-shm'];

/** Creates a file that no other user can read, unless it exists. */
export function makeFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (caught) {
    // Never open an existing file here: closing it would release all locks of this process on the file.
    if (!existsSync(path)) throw caught;
  }
}

/**
 * Creates a folder and its parents, for this user only. Node's own `recursive` never ends below a folder that exists
 * but accepts no new folders, as in /proc.
 */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(dirname(folder));
  try {
    await mkdir(folder, 0o700);
  } catch (caught) {
    // Another process has created it in the meantime.
    if (!existsSync(folder)) throw caught;
  }
}

/** Throws if the files or their folder are read-only: SQLite would open them for reading, and fail at each write. */
export function checkWritable(path: string): void {
  for (const place of [...suffixes.map((suffix) => path + suffix), dirname(path)]) {
    try {
      accessSync(place, constants.W_OK);
    } catch (caught) {
      if (existsSync(place))
        throw new Error(`the user ${userName() ?? 'of this process'} cannot write to ${place}`, {
          cause: caught,
        });
    }
  }
}

function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // The user has no name on this machine.
    return undefined;
  }
}

/** Returns the files that a connection has just opened. */
export function openFiles(path: string): OpenFiles {
  return { path, identities: suffixes.map((suffix) => identityOf(statOf(path + suffix))) };
}

/**
 * Throws `unavailable` if a path no longer leads to the opened file: the file was removed or replaced, or its folder
 * was renamed. SQLite would continue to write to the old file, which is lost when the process ends.
 * Returns the size of the log.
 */
export function checkFiles({ path, identities }: OpenFiles): bigint {
  let logBytes = 0n;
  for (const [i, suffix] of suffixes.entries()) {
    const now = statOf(path + suffix);
    if (now === undefined || identityOf(now) !== identities[i]) {
      throw lost(`${path}${suffix} has been removed or replaced`);
    }
    if (suffix === '-wal') logBytes = now.size;
  }
  return logBytes;
}

/**
 * Like `checkFiles`, and throws if the log was truncated, because its content is then invalid. A log only grows while
 * its header stays the same: SQLite writes another header when it restarts the log. Call it after a commit, after
 * which no log is empty.
 */
export function watchFiles(files: OpenFiles): () => void {
  const log = openSync(`${files.path}-wal`, 'r');
  let known = Buffer.alloc(logHeaderBytes);
  let header = Buffer.alloc(logHeaderBytes);
  let bytes = 0n;
  return () => {
    const bytesNow = checkFiles(files);
    header.fill(0);
    readSync(log, header, 0, logHeaderBytes, 0);
    const isCut = header.equals(known) ? bytesNow < bytes : !isLogHeader(header);
    if (isCut) throw lost(`${files.path}-wal has been cut short`);
    [known, header, bytes] = [header, known, bytesNow];
  };
}

const logHeaderBytes = 32;

// The first bytes of a log (sqlite.org/fileformat2.html), except for the bit of the byte order of its checksums.
function isLogHeader(header: Buffer): boolean {
  return header.readUInt32BE() >>> 1 === 0x377f0682 >>> 1;
}

function statOf(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}

function identityOf(stats: BigIntStats | undefined): string {
  return `${stats?.dev} ${stats?.ino}`;
}

function lost(problem: string): DomainError {
  const cause = new Error(`the file ${problem} since it was opened`);
  return new DomainError('unavailable', 'the store is not available', { cause });
}
