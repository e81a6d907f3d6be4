import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Tools {
  /** The folder of initdb, pg_basebackup and pg_rewind. */
  readonly postgres: string;
  /** Of etcd, Patroni and PostgreSQL. */
  readonly versions: readonly string[];
}

/** Finds etcd, Patroni and PostgreSQL, or says what is missing. */
export async function findTools(): Promise<Tools | string> {
  const version = async (command: string) => (await run(command, ['--version'])).stdout.split('\n')[0] ?? '';
  const [postgres] = globSync('/usr/lib/postgresql/*/bin').toSorted().reverse();
  if (postgres === undefined) return 'PostgreSQL is not in /usr/lib/postgresql (Debian: postgresql-15)';
  try {
    const versions = [
      await version('etcd'),
      await version('patroni'),
      await version(join(postgres, 'postgres')),
    ];
    await version('setpriv');
    return { postgres, versions };
  } catch (error) {
    const program = error instanceof Error && 'path' in error ? error.path : error;
    return `${program} is not installed (Debian: etcd-server; PyPI: patroni[etcd3] and psycopg[binary])`;
  }
}

/** `undefined` when there is no answer in a second. */
export async function ask(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; text: string } | undefined> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(1_000) });
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** The process of a running server and those that it has started. */
export function postgresPids(folder: string): number[] {
  try {
    const data = join(folder, 'data');
    const server = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    // After a crash the number may be that of another program.
    if (!readFileSync(`/proc/${server}/cmdline`, 'utf8').includes(data)) return [];
    const children = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').trim().split(' ');
    return [server, ...children.map(Number).filter((pid) => pid > 0)];
  } catch {
    return [];
  }
}
