import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Tools {
  /** The folder of initdb, pg_basebackup and pg_rewind. */
  readonly postgres: string;
  /** The versions of etcd, Patroni and PostgreSQL. */
  readonly versions: readonly string[];
}

/** Finds etcd, Patroni and PostgreSQL, or returns the name of a missing program. */
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

// Patroni accepts no time to live of the leader's key below 20 s.
const settings = { ttl: 20, loop_wait: 2, retry_timeout: 3 };

interface NodeSettings {
  readonly name: string;
  readonly folder: string;
  readonly port: number;
  /** `host:port` of its REST API. */
  readonly rest: string;
  /** The folder of PostgreSQL's programs. */
  readonly bin: string;
  readonly etcdPort: number;
  readonly password: string;
}

/** The configuration of a Patroni node with synchronous replication. */
export function nodeConfig({ name, folder, port, rest, bin, etcdPort, password }: NodeSettings): object {
  const login = (username: string) => ({ username, password });
  const hba = ['host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256'];
  return {
    scope: 'users',
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { hosts: [`127.0.0.1:${etcdPort}`] },
    bootstrap: {
      dcs: {
        ...settings,
        // Asynchronous replication can lose acknowledged writes in a failover.
        synchronous_mode: true,
        postgresql: {
          use_pg_rewind: true,
          // By default, a standby retries a failed connection to the new leader after 5 s, and commits wait
          // for it.
          parameters: { wal_log_hints: 'on', max_connections: 100, wal_retrieve_retry_interval: '500ms' },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'data-checksums'],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: join(folder, 'data'),
      bin_dir: bin,
      pgpass: join(folder, 'pgpass'),
      pg_hba: hba,
      parameters: { unix_socket_directories: folder },
      // A node that cannot be rewound is reinitialised.
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      basebackup: [{ checkpoint: 'fast' }],
      authentication: {
        superuser: login('postgres'),
        replication: login('replicator'),
        rewind: login('rewind'),
      },
    },
  };
}

/** Resolves to `undefined` if there is no response within a second. */
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

/** The process of a running server and its child processes. */
export function postgresPids(folder: string): number[] {
  try {
    const data = join(folder, 'data');
    const server = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    // After a crash, another program may have the process id.
    if (!readFileSync(`/proc/${server}/cmdline`, 'utf8').includes(data)) return [];
    const children = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').trim().split(' ');
    return [server, ...children.map(Number).filter((pid) => pid > 0)];
  } catch {
    return [];
  }
}
