import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  statSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { DomainError } from '../../domain/errors.ts';

/** The database, its log and the index of the log, which belong together, as they were when they were opened. */
export interface OpenFiles {
  readonly path: string;
  readonly identities: readonly (string | undefined)[];
}

const suffixes = ['', '-wal', '-shm'];

/** Makes a file, and the folders above it, that no other user can read. */
export async function makeFile(path: string): Promise<void> {
  await makeFolder(dirname(path));
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (caught) {
    // It is never opened when it is there: closing it would drop the locks this process may have on it.
    if (!existsSync(path)) throw caught;
  }
}

/**
 * Makes a folder and those above it. Node's own `recursive` never ends where a folder is there and yet
 * takes none, as in /proc.
 */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(dirname(folder));
  try {
    await mkdir(folder, 0o700);
  } catch (caught) {
    // Another process has been faster.
    if (!existsSync(folder)) throw caught;
  }
}

/** Throws where the files or their folder cannot be written: SQLite would open them to read, and fail at each write. */
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
    // It has no name on this machine.
    return undefined;
  }
}

/** The files that a connection has just opened. */
export function openFiles(path: string): OpenFiles {
  return { path, identities: suffixes.map((suffix) => identify(path + suffix)) };
}

/**
 * Throws `unavailable` where a file at its path is not the one that was opened, as when it was removed or
 * replaced or its folder renamed. SQLite would go on with it, and what it writes be gone with the process.
 */
export function checkFiles({ path, identities }: OpenFiles): void {
  for (const [i, suffix] of suffixes.entries()) {
    const now = identify(path + suffix);
    if (now === undefined || now !== identities[i])
      throw lost(`${path}${suffix} has been removed or replaced`);
  }
}

function identify(path: string): string | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}

function lost(problem: string): DomainError {
  const cause = new Error(`the file ${problem} since it was opened`);
  return new DomainError('unavailable', 'the store is not available', { cause });
}

/**
 * Watches the log for being cut short, after which nothing in it counts. Its check throws `unavailable`;
 * it is made with the write lock, before and after each commit.
 *
 * The log only grows while its header stays the same: SQLite gives it another one when it starts it anew.
 */
export function watchLog({ path }: OpenFiles): () => void {
  const log = openSync(`${path}-wal`, 'r');
  let [known, size] = ['', 0];
  return () => {
    const header = Buffer.alloc(32);
    readSync(log, header, 0, header.length, 0);
    const now = header.toString('latin1');
    const sizeNow = fstatSync(log).size;
    const isCut = now === known ? sizeNow < size : sizeNow > 0 && header.readUInt32BE() >>> 1 !== logMagic;
    if (isCut) throw lost(`${path}-wal has been cut short`);
    [known, size] = [now, sizeNow];
  };
}

// The first bytes of a log (sqlite.org/fileformat2.html), without the bit for the byte order of its checksums.
const logMagic = 0x377f0682 >>> 1;
