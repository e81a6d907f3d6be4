import { existsSync, type StatsFs, statfsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../../domain/errors.ts';
import { examineMode, type Finding, fail, ok, warn } from '../tools.ts';
import { isBusy } from './errors.ts';
import { checkLog, checkWritable, maxIdleLogBytes, nearestFolder, realPath, sizeOf } from './file.ts';
import { findVersion, schemaVersion } from './schema.ts';

const mebibyte = 1024 * 1024;
// A full disk fails commits, because the write-ahead log cannot grow.
const minFreeBytes = 100 * mebibyte;
const fewFreeBytes = 1024 * mebibyte;
// From statfs(2): AFS, Ceph, CIFS, NFS, SMB, SMB2 and 9P.
const networkFileSystems = [0x5346414f, 0xc36400, 0xff534d42, 0x6969, 0x517b, 0xfe534d42, 0x1021997];

/** Examines a SQLite file without changing it, for a service of this many processes. A service may be using it. */
export function examineSqlite(path: string, processes = 1): Finding[] {
  let file: string;
  try {
    file = realPath(resolve(path));
    checkWritable(file);
  } catch (caught) {
    return [fail(messageOf(caught), 'run as the user of the service, or check path, owner and disk')];
  }
  const space = [...examineSpace(file, statfsSync(nearestFolder(dirname(file)))), examineVersion(processes)];
  try {
    checkLog(file);
  } catch (caught) {
    return [fail(`${file}: ${messageOf(caught)}`, 'until then the service does not start'), ...space];
  }
  if (!existsSync(file)) return [ok(`${file} does not exist yet; the first start creates it`), ...space];
  const findings = [examineMode(file), ...space];
  const obstacle = findObstacle(file);
  if (obstacle === undefined) return [...findings, examineLog(file), ...examineData(file)];
  return [...findings, warn(`${obstacle}, so the data is not checked`, 'start the service once')];
}

function* examineSpace(file: string, { bavail, bsize, type }: StatsFs) {
  const [freeBytes, bytes] = [bavail * bsize, sizeOf(file)];
  const size = existsSync(file) ? ` (${inMib(bytes)})` : '';
  const text = `the disk of ${file}${size} has ${inMib(freeBytes)} free`;
  if (freeBytes < minFreeBytes) yield fail(text, 'make room, because writes fail on a full disk');
  else if (freeBytes < Math.max(fewFreeBytes, bytes)) yield warn(text, 'make room for growth and a backup');
  else yield ok(text);
  if (networkFileSystems.includes(type))
    yield warn(`the file system of ${file} is on a network, with unreliable locks`, 'use a local disk');
}

/** Why the data cannot be read without a change of the files; `undefined` if it can. */
function findObstacle(file: string): string | undefined {
  // SQLite undoes this write when it opens the file. Until then, the file may have a part of it, and look damaged.
  if (sizeOf(`${file}-journal`) > 0) return `${file}-journal has an unfinished write`;
  const isIndexLost = sizeOf(`${file}-wal`) > 0 && !existsSync(`${file}-shm`);
  return isIndexLost ? `${file}-wal has the latest writes, but ${file}-shm is missing` : undefined;
}

function examineLog(file: string): Finding {
  const bytes = sizeOf(`${file}-wal`);
  if (bytes === 0) return ok(`${file}-wal is empty`);
  const text = `${file}-wal has the latest writes (${inMib(bytes)})`;
  return bytes > maxIdleLogBytes
    ? warn(`${text} and keeps growing during a long read`, 'end long reads, such as a backup')
    : ok(text);
}

function* examineData(file: string) {
  const url = pathToFileURL(file);
  // Even a read-only connection would create a missing log or index. Without them, no process uses the file.
  const hasLog = existsSync(`${file}-wal`) && existsSync(`${file}-shm`);
  url.search = hasLog ? 'mode=ro&readonly_shm=1' : 'immutable=1';
  const { mtimeMs } = statSync(file);
  const damaged = (problem: unknown): Finding => {
    // This check has no lock then, so it may mix old and new pages of a process that starts meanwhile.
    if (!hasLog && statSync(file).mtimeMs !== mtimeMs)
      return warn(`${file} was written during its check`, 'run doctor again');
    const text = `${file} cannot be read: ${problem}`;
    return fail(text.replaceAll('\n', ' '), 'restore a backup, and check the disk');
  };
  try {
    using db = new DatabaseSync(url, { readOnly: true, returnArrays: true });
    const [version, problem] = [findVersion(db), db.prepare('PRAGMA quick_check(1)').get()?.[0]];
    const schema = `the schema has version ${version}`;
    if (version === 0) yield warn(`${file} has no tables`, 'restore a backup, unless it never had records');
    else if (version === schemaVersion) yield ok(schema);
    else yield warn(schema, `back up: the next start migrates it to ${schemaVersion}`);
    yield problem === 'ok' ? ok(`${file} passes the quick_check of SQLite`) : damaged(problem);
  } catch (caught) {
    const advice = 'use the program that has written it, or choose another file';
    if (isBusy(caught)) yield warn(`${file} is locked by another process`, 'run doctor again');
    // Only the errors of SQLite itself have a code.
    else if ('errcode' in Object(caught)) yield damaged(messageOf(caught));
    else yield fail(`${file} cannot be used: ${messageOf(caught)}`, advice);
  }
}

/** `version` is the one of SQLite. Older versions lack the correction of https://sqlite.org/wal.html#walresetbug. */
export function examineVersion(processes: number, version = sqliteVersion()): Finding {
  const [minor = 0, patch = 0] = version.split('.').slice(1).map(Number);
  if (minor > 51 || (minor === 51 && patch >= 3) || (minor === 50 && patch >= 7))
    return ok(`SQLite ${version}`);
  if (processes === 1) return ok(`SQLite ${version}, which is safe for one process`);
  const what = `SQLite ${version} may damage a file to which several processes write`;
  return warn(what, 'use Node.js 24.15 or 26, or one process');
}

const inMib = (bytes: number): string => `${Math.round(bytes / mebibyte)} MiB`;

function sqliteVersion(): string {
  using db = new DatabaseSync(':memory:');
  return String(db.prepare('SELECT sqlite_version() AS version').get()?.['version']);
}
