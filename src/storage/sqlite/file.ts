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

/** The database, its log and the index of the log, which belong together, as they were when they were opened. */
export interface OpenFiles {
  readonly path: string;
  /** Its device and its number there. */
  readonly identities: readonly string[];
}

const suffixes = ['', '-wal', '-shm'];

/** Makes a file that no other user can read, unless it is there. */
export function makeFile(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (caught) {
    // It is never opened when it is there: closing it would drop the locks this process may have on it.
    if (!existsSync(path)) throw caught;
  }
}

/**
 * Makes a folder and those above it, for this user alone. Node's own `recursive` never ends where a folder is there and yet
 * takes none, as in /proc.
 */
export async function makeFolder(folder: string): Promise<void> {
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
  return { path, identities: suffixes.map((suffix) => identityOf(statOf(path + suffix))) };
}

/**
 * Throws `unavailable` where a file at its path is not the one that was opened, as when it was removed or
 * replaced or its folder renamed. SQLite would go on with it, and what it writes be gone with the process.
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
 * As `checkFiles`, and throws if the log has been cut, because then nothing in it counts. A log only grows
 * while its header stays the same: SQLite writes another header when it restarts the log. For use after a
 * commit, which leaves no log empty.
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

// The first bytes of a log (sqlite.org/fileformat2.html), but for the bit that is the byte order of its checksums.
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
