import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { getUser, usersClient } from '../kit/grpc.ts';
import { printed } from '../kit/process.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { hasTool, runTool } from '../support/tool.ts';
import { create, start, untilWorkers, workersOf } from './pool.ts';

const noPrlimit = { skip: hasTool('prlimit') ? false : 'no prlimit, which Linux has in util-linux' };

describe('a pool of workers', { concurrency: 4 }, () => {
  it('workers serve the same ports over the same file, and log the addresses once', async (t) => {
    const running = await start(t);
    assert.equal((await workersOf(running)).length, 2);
    const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => create(running.http, `user ${n}`)));
    assert.deepEqual(
      ids.sort((a, b) => a - b),
      Array.from({ length: 40 }, (_, n) => n + 1),
    );
    for (let n = 0; n < 4; n += 1) {
      assert.equal((await getUser(usersClient(t, running.grpc), 1)).user?.id, 1);
    }
    assert.equal(await running.end(), 0);
    assert.equal(running.lines.filter(({ event }) => event === 'listening').length, 1);
    assert.equal(running.lines.filter(({ event }) => event === 'request').length, 44);
  });

  it('workers stop on SIGTERM after running requests have completed, and no process remains', async (t) => {
    const running = await start(t, '--drain-idle-ms', '8000', '--drain-timeout-ms', '2147483647');
    const workers = await workersOf(running);
    const wires = await Promise.all([1, 2, 3].map(() => Wire.open(t, Number(new URL(running.http).port))));
    for (const wire of wires) wire.write(head('GET /health'));
    for (const wire of wires) await wire.next();
    const ended = running.end();
    await printed(running, 'draining');
    for (const wire of wires) {
      // A worker may respond normally until it receives the stop message.
      let connection: string | undefined;
      do {
        wire.write(head('GET /health'));
        const { status, headers } = await wire.next();
        assert.equal(status, 200);
        connection = headers['connection'];
      } while (connection !== 'close');
    }
    assert.equal(await ended, 0);
    for (const pid of workers) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
    assert.deepEqual(
      running.lines.map(({ event }) => event).filter((event) => event !== 'request'),
      ['created', 'listening', 'draining', 'closed'],
    );
  });

  it('workers are restarted on the same ports when one dies', async (t) => {
    const running = await start(t);
    const [victim = 0, other = 0] = await workersOf(running);
    process.kill(victim, 'SIGKILL');
    await printed(running, 'failure');
    assert.match(JSON.stringify(running.lines.at(-1)), /a worker exited: SIGKILL/);
    const isBack = async () => {
      assert.equal((await fetch(`${running.http}/health`)).status, 200);
      return (await workersOf(running)).length === 2;
    };
    await untilWorkers(isBack, 'there are two workers again');
    const workers = await workersOf(running);
    assert.ok(workers.includes(other) && !workers.includes(victim));
  });

  it('workers are restarted on the same ports when all die at once', async (t) => {
    const running = await start(t);
    for (const pid of await workersOf(running)) process.kill(pid, 'SIGKILL');
    await printed(running, 'failure', 2);
    const isBack = () =>
      fetch(`${running.http}/health`).then(
        (response) => response.ok,
        () => false,
      );
    await untilWorkers(isBack, 'a new worker responds');
    const client = usersClient(t, running.grpc);
    assert.equal((await getUser(client, 1, { deadline: Date.now() + 60_000 })).code, status.NOT_FOUND);
    assert.equal(await running.end(), 0);
  });

  it(
    'workers without a free file descriptor close connections, and later accept others',
    noPrlimit,
    async (t) => {
      const running = await start(t);
      const workers = await workersOf(running);
      const limitFiles = async (count: number) => {
        for (const pid of workers) {
          const { code } = await runTool('prlimit', [`--pid=${pid}`, `--nofile=${count}:`]);
          assert.equal(code, 0);
        }
      };
      await limitFiles(1);
      const { hostname, port } = new URL(running.http);
      const refused = Array.from({ length: 6 }, () =>
        connect(Number(port), hostname).on('error', () => undefined),
      );
      await Promise.all(refused.map((socket) => once(socket.resume(), 'close')));
      await limitFiles(1_024);
      for (let n = 0; n < 6; n += 1) assert.equal((await fetch(`${running.http}/health`)).status, 200);
    },
  );

  it('workers exit when their primary is killed', async (t) => {
    const running = await start(t);
    const workers = await workersOf(running);
    await running.end('SIGKILL');
    const port = Number(new URL(running.http).port);
    await untilWorkers(async () => !workers.some(isAlive), 'all workers have exited');
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    server.close();
  });

  it('workers are replaced when they receive SIGTERM directly', async (t) => {
    const running = await start(t);
    const [leaver = 0] = await workersOf(running);
    process.kill(leaver, 'SIGTERM');
    await printed(running, 'failure');
    const isReplaced = async () => {
      const workers = await workersOf(running);
      return workers.length === 2 && !workers.includes(leaver);
    };
    await untilWorkers(isReplaced, 'the worker is replaced');
    assert.equal(await running.end(), 0);
  });

  it('workers close the database, so the last one removes its log', async (t) => {
    const isRemoved = async (): Promise<boolean> => {
      const running = await start(t);
      await create(running.http, 'Ada');
      assert.equal(await running.end(), 0);
      assert.ok(existsSync(join(running.folder, 'users.db')));
      return !existsSync(join(running.folder, 'users.db-wal'));
    };
    // SQLite leaves the log if two processes close the database at the same moment, which is rare.
    assert.ok((await isRemoved()) || (await isRemoved()) || (await isRemoved()));
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
