import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from './free-ports.ts';
import { findNobody } from './postgres-binaries.ts';

const program = '/usr/sbin/pgbouncer';

/** The reason to skip tests with PgBouncer, or `false`. */
export const noPgBouncer: string | false = existsSync(program) ? false : `${program} is not installed`;

export interface PgBouncer {
  /** The URL of a database, through the pooler. */
  through(url: string): string;
}

/**
 * Starts a PgBouncer in front of the server at a URL, in transaction mode and with default settings otherwise.
 * Its pool of three connections makes clients change sessions often.
 */
export async function startPgBouncer(
  after: (end: () => Promise<void>) => void,
  server: string,
  mode = 'transaction',
): Promise<PgBouncer> {
  const { port, username, password } = new URL(server);
  const folder = await mkdtemp(join(tmpdir(), 'users-service-pgbouncer-'));
  const [listenPort] = await freePorts(1);
  const users = join(folder, 'users.txt');
  await writeFile(users, `"${username}" "${password}"\n`);
  const settings = `
    [databases]
    * = host=127.0.0.1 port=${port}
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${listenPort}
    unix_socket_dir =
    auth_user = ${username}
    auth_type = scram-sha-256
    auth_file = ${users}
    pool_mode = ${mode}
    default_pool_size = 3
    server_idle_timeout = 1
    max_client_conn = 1000`;
  const config = join(folder, 'pgbouncer.ini');
  await writeFile(config, settings.replaceAll(/^ +/gm, ''));
  // PgBouncer does not run as root.
  const user = process.getuid?.() === 0 ? await findNobody() : {};
  await chmod(folder, 0o755);
  const child = spawn(program, [config], { ...user, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'exit');
  after(async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true });
  });
  let log = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-8192);
      if (log.includes('process up')) resolve();
    });
    child.once('error', reject).once('exit', () => reject(new Error(`PgBouncer did not start:\n${log}`)));
  });
  return {
    through(url) {
      const made = new URL(url);
      made.port = String(listenPort);
      return made.href;
    },
  };
}
