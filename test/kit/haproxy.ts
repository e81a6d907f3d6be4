import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from './free-ports.ts';
import { until } from './until.ts';

const program = '/usr/sbin/haproxy';

/** The reason to skip tests with HAProxy, or `false`. */
export const noHaproxy: string | false = existsSync(program) ? false : `${program} is not installed`;

/** Starts an HAProxy that forwards the PostgreSQL protocol to the server at a URL. */
export async function startHaproxy(
  after: (end: () => Promise<void>) => void,
  server: string,
): Promise<{ through(url: string): string }> {
  const folder = await mkdtemp(join(tmpdir(), 'users-service-haproxy-'));
  const [port = 0] = await freePorts(1);
  const config = join(folder, 'haproxy.cfg');
  const { hostname, port: serverPort } = new URL(server);
  const settings = `
    global
      maxconn 2000
    defaults
      mode tcp
      timeout connect 5s
      timeout client 30m
      timeout server 30m
    listen postgres
      bind 127.0.0.1:${port}
      server primary ${hostname}:${serverPort || 5432} check
    `;
  await writeFile(config, settings.replaceAll(/^ {4}/gm, ''));
  const child = spawn(program, ['-db', '-f', config], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  after(async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true });
  });
  const accepts = async () => {
    const socket = connect(port, '127.0.0.1');
    return await once(socket, 'connect')
      .then(
        () => true,
        () => false,
      )
      .finally(() => socket.destroy());
  };
  await until(accepts, 'HAProxy accepts connections', 60_000);
  return {
    through(url) {
      const made = new URL(url);
      made.host = `127.0.0.1:${port}`;
      return made.href;
    },
  };
}
