import {
  accessSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import type { DomainError } from '../../domain/errors.ts';
import { syncFolder } from '../sync.ts';
import { unavailable } from './errors.ts';
import { hasDamagedHeader, isIntact, logHeaderBytes, readHeader } from './log-header.ts';

// After a long read has kept SQLite from reusing the write-ahead log, the log is truncated to this length.
export const maxIdleLogBytes = 64 * 1024 * 1024;
const suffixes = ['', '-wal', '-shm'];

/** Resolves symbolic links, also of a path that does not exist yet. The log is beside the file, not beside a link. */
export function realPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (caught) {
    // The folder of a missing drive is the drive itself.
    if (Object(caught).code !== 'ENOENT' || path === dirname(path)) throw caught;
  }
  const file = join(realPath(dirname(path)), basename(path));
  const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink ? realPath(resolve(dirname(file), readlinkSync(file))) : file;
}

/** Throws if commits of the log would be lost: without its database or a valid header, SQLite removes a log. */
export function checkLog(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false)
    throw new Error('it is not a regular file: choose another path');
  if (isMountedAlone(path))
    throw new Error('it is mounted by itself, but its log is not: mount the folder instead');
  const log = `${path}-wal`;
  // Look at the log first, because another process creates it last.
  const logBytes = sizeOf(log);
  if (logBytes > 0 && sizeOf(path) === 0)
    throw new Error(
      `its log ${log} exists, but the file itself is missing or empty: put it back, or remove the log`,
    );
  // SQLite syncs the header before it writes more, so a loss of power damages none.
  if (logBytes > logHeaderBytes && hasDamagedHeader(log))
    throw new Error(
      `the header of its log ${log} is damaged, so SQLite would ignore its writes: restore a backup, or remove the log`,
    );
}

/** Whether only the file is mounted, as by `docker run -v ./users.db:/data/users.db`. The log is then lost. */
export function isMountedAlone(path: string, mounts = readMounts()): boolean {
  const places = mounts.split('\n').map((line) => line.split(' ')[4]);
  return places.includes(path) && !places.includes(`${path}-wal`);
}

function readMounts(): string {
  try {
    return readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    // Only Linux has this file.
    return '';
  }
}

/** The size of a file in bytes; 0 if it is missing. */
export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Creates a file that no other user can read, unless it exists. Returns whether it created it. */
export function makeFile(path: string): boolean {
  checkLog(path);
  try {
    writeFileSync(path, '', { flag: 'wx', mode: 0o600 });
    return true;
  } catch (caught) {
    // Never open an existing file here: closing it would release all locks of this process on the file.
    if (!existsSync(path)) throw caught;
    return false;
  }
}

/** Creates a folder and its parents, durably and for this user only. `recursive` of Node.js hangs below /proc. */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(dirname(folder));
  try {
    await mkdir(folder, 0o700);
  } catch (caught) {
    // Another process has created it in the meantime.
    if (!existsSync(folder)) throw caught;
  }
  await syncFolder(dirname(folder));
}

/** Throws if the files or their folder are read-only: SQLite would open them for reading, and fail at each write. */
export function checkWritable(path: string): void {
  for (const place of [...suffixes.map((suffix) => path + suffix), nearestFolder(dirname(path))]) {
    try {
      accessSync(place, constants.W_OK);
    } catch (caught) {
      const { code } = Object(caught);
      if (code === 'EROFS') throw new Error(`the disk of ${place} is mounted read-only`, { cause: caught });
      if (code === 'EACCES' || code === 'EPERM')
        throw new Error(`the user ${userName()} cannot write to ${place}`, { cause: caught });
      // Another process may create or remove the log at any moment.
      if (code !== 'ENOENT') throw caught;
    }
  }
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The user has no name on this machine.
    return 'of this process';
  }
}

export type OpenFiles = ReturnType<typeof openFiles>;

/** The identities of the files just opened at `path`. The next start will use `givenPath`, such as a link to it. */
export function openFiles(path: string, givenPath: string) {
  const identities = new Map(suffixes.map((suffix) => [path + suffix, identityAt(path + suffix)]));
  return { path, identities: identities.set(givenPath, identities.get(path)) };
}

/** Throws if a path leads to another file now: SQLite writes to the old one, which the next start does not find. */
export function checkFiles({ path, identities }: OpenFiles): void {
  for (const [place, identity] of identities) {
    const found = identityAt(place);
    if (found !== undefined && found === identity) continue;
    // On close, SQLite leaves the log of the old file, which the next start would apply to the new file.
    const isReplaced = place === path && found !== undefined;
    const other = `. If you replaced it, stop the service, remove ${path}-wal and -shm of the old file, and start it`;
    throw lost(`${place} has been removed or replaced`, `: put it back${isReplaced ? other : ''}`);
  }
}

/**
 * Watches the files of a connection that writes. Another program may cut off a part of its log, or overwrite its
 * header. SQLite shortens a log too, but then it gets another header, or is empty and `isLogUnused` returns true.
 */
export function watchFiles(files: OpenFiles, isLogUnused: () => boolean) {
  const path = `${files.path}-wal`;
  const log = openSync(path, 'r');
  // At a stop, SQLite copies the log into the database, which damages it if a part of the log is missing.
  const remedy = ': copy its folder, then stop the service with SIGTERM';
  const damaged = () => lost(`${path} has been cut short or overwritten`, remedy);
  // Another process may have restarted a long log, and truncates it to this size only at the end of its commit.
  const newLogBytes = () => Math.min(fstatSync(log).size, maxIdleLogBytes);
  let known = readHeader(log);
  let knownBytes = newLogBytes();
  return {
    /** Throws if the log was cut. Must be called under the lock of a commit, which would fill the gap with zeros. */
    checkLength(): void {
      if (fstatSync(log).size >= knownBytes) return;
      const header = readHeader(log);
      if (header.equals(known.subarray(0, header.length)) && !(header.length === 0 && isLogUnused()))
        throw damaged();
    },

    /** Must be called after each commit: in a log that was emptied before, it is at the old end, without a header. */
    check(): void {
      checkFiles(files);
      // Read before the length, because another process may restart the log in the meantime.
      const header = readHeader(log);
      if (header.length > 0 && !isIntact(header)) throw damaged();
      knownBytes = header.equals(known) ? fstatSync(log).size : newLogBytes();
      known = header;
    },
  };
}

/** The device and the inode number of the file at a path; `undefined` if it is missing. */
function identityAt(path: string): string | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev} ${stats.ino}`;
}

function lost(problem: string, remedy = ''): DomainError {
  return unavailable(new Error(`the file ${problem} since it was opened${remedy}`));
}

/** The folder at a path, or the nearest one above it that exists. */
export function nearestFolder(path: string): string {
  return existsSync(path) ? path : nearestFolder(dirname(path));
}
