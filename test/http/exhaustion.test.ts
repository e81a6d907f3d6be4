import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../kit/until.ts';
import { head, Wire } from '../kit/wire.ts';
import { send } from '../support/client.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const descriptors = 128;
const connections = 500;

test('more connections than file descriptors neither end the process nor flood its log, and files return 503', async (t) => {
  const options = ['--port', '0', '--grpc-port', 'off', '--database', 'memory:', '--log', 'json'];
  // The requests that never end take all file descriptors, however long the others need.
  options.push('--headers-timeout-ms', '0', '--request-timeout-ms', '0');
  const shell = `ulimit -n ${descriptors}; exec "$0" "$@"`;
  const child = spawn('sh', ['-c', shell, process.execPath, main, ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const lines: string[] = [];
  const listening = Promise.withResolvers<string>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    listening.resolve(line);
  });
  const { http }: { http: string } = JSON.parse(await listening.promise);
  const port = Number(new URL(http).port);
  const healthy = async (): Promise<boolean> => {
    // A connection that stays open would free a file descriptor when this process closes it.
    const headers = { connection: 'close' };
    const answer = await send(http, 'GET /health', { headers }).catch(() => undefined);
    return answer?.status === 200;
  };
  assert.ok(await healthy());
  if (process.platform === 'linux') {
    // Until then, the process reads the limit from a file, whose descriptor it frees.
    await until(() => lines.some((line) => line.includes(`may open ${descriptors} files`)), 'the warning');
  }
  const early = await Wire.open(t, port);

  const sockets: Socket[] = Array.from({ length: connections }, () => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n'),
    );
    return socket.on('error', () => undefined);
  });
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  // The process accepts connections in order. Without a file descriptor, it closes them.
  const last = sockets.at(-1)?.resume();
  await until(() => last?.closed === true, 'the last connection is closed');
  // Enough requests for the process to fail or to fill its log.
  for (let i = 0; i < 200; i += 1) {
    const { status, headers } = await early.write(head('GET /')).next();
    assert.deepEqual([status, headers['retry-after']], [503, '1']);
    early.forget();
  }
  assert.equal(child.exitCode, null);
  for (const socket of sockets) socket.destroy();

  await until(healthy, 'the service responds again');
  assert.equal((await send(http, 'GET /')).status, 200, 'files can be opened again');
  // The log limits failures to 20 lines a second, however long the requests took.
  const others = lines.filter((line) => !/"event":"(?:request|failure)"/.test(line));
  assert.ok(others.length < 20, `${others.length} lines:\n${others.join('\n')}`);
  assert.ok(
    lines.some((line) => line.includes('EMFILE')),
    'the reason is in the log',
  );
  child.kill();
  assert.deepEqual(await exited, [0, null], 'the service can still shut down');
});
