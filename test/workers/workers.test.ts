import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { freePorts } from '../kit/free-ports.ts';
import { getUser, usersClient } from '../kit/grpc.ts';
import { lostLines, printed, withoutGrpc } from '../kit/process.ts';
import { head, Wire } from '../kit/wire.ts';
import { fetch } from '../support/fetch.ts';
import { hasTool, runTool } from '../support/tool.ts';
import { create, type Pool, portOf, scrapeBoth, start, untilEnded, untilWorkers, workersOf } from './pool.ts';

const noPrlimit = { skip: hasTool('prlimit') ? false : 'no prlimit, which Linux has in util-linux' };

describe('a pool of workers', { concurrency: 4 }, () => {
  it('workers stop on SIGTERM after running requests have completed, then disconnect from their primary, and no process remains', async (t) => {
    // The primary reports the exit code as a failure. A connection on its way to a connected worker would be lost.
    const code = `process.once('exit', () => process.connected && process.exit(9))`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
    const running = await start(t, ['--drain-idle-ms', '8000', '--drain-timeout-ms', '2147483647'], env);
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
    const events = running.lines.map(({ event }) => event).filter((event) => event !== 'request');
    assert.deepEqual(events, ['created', 'listening', 'draining', 'closed']);
  });

  // systemd and a terminal send the signal to the workers too.
  for (const receiver of ['the primary', 'all processes']) {
    it(`workers respond on all connections that wait for the primary at SIGTERM of ${receiver}`, async (t) => {
      const running = await start(t, ['--drain-timeout-ms', '600000', ...withoutGrpc]);
      const workers = receiver === 'the primary' ? [] : await workersOf(running);
      // A worker closes its port when no connection has arrived for a turn of the primary, which accepts one in each.
      running.child.kill('SIGSTOP');
      const wires = await Promise.all(Array.from({ length: 40 }, () => Wire.open(t, portOf(running))));
      for (const wire of wires) wire.write(head('GET /health'));
      for (const worker of workers) process.kill(worker, 'SIGTERM');
      const ended = running.end();
      running.child.kill('SIGCONT');
      for (const wire of wires) assert.equal((await wire.next()).status, 200);
      assert.equal(await ended, 0);
    });
  }

  it('workers count lost lines of the log in the metrics, and exit when their primary is killed', async (t) => {
    const running = await start(t, withoutGrpc);
    const workers = await workersOf(running);
    assert.equal(await lostLines(running.http), 0);
    running.child.stdout?.destroy();
    await untilWorkers(async () => (await lostLines(running.http)) > 0, 'a line is lost');
    await running.end('SIGKILL');
    const port = Number(new URL(running.http).port);
    await untilEnded(workers);
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    server.close();
  });

  // These tests run in this order, each with two running workers.
  it('that lasts', async (all) => {
    const [port, grpcPort] = await freePorts(2);
    const running = await start(all, ['--port', `${port}`, '--grpc-port', `${grpcPort}`]);
    const failures = () => running.lines.filter(({ event }) => event === 'failure');

    await all.test('workers serve the same ports over the same file', async (t) => {
      assert.equal((await workersOf(running)).length, 2);
      const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => create(running.http, `user ${n}`)));
      const all = Array.from({ length: 40 }, (_, n) => n + 1);
      const sorted = ids.sort((a, b) => a - b);
      assert.deepEqual(sorted, all);
      for (let n = 0; n < 4; n += 1) {
        assert.equal((await getUser(usersClient(t, running.grpc), 1)).user?.id, 1);
      }
      await printed(running, 'request', 44);
      assert.equal(running.lines.filter(({ event }) => event === 'request').length, 44);
    });

    await all.test(
      'workers without a free file descriptor close connections, and later accept others',
      noPrlimit,
      async () => {
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

    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      await all.test(`a worker that receives ${signal} directly is replaced on the same ports`, async (t) => {
        const earlier = failures().length;
        const [victim = Number.NaN, other = Number.NaN] = await workersOf(running);
        process.kill(victim, signal);
        await printed(running, 'failure', earlier + 1);
        const reason = signal === 'SIGKILL' ? 'SIGKILL' : 'code 0';
        assert.match(JSON.stringify(failures().at(-1)), new RegExp(`a worker exited: ${reason}`));
        await scrapeBoth(t, running);
        const workers = await workersOf(running);
        assert.equal(workers.length, 2);
        assert.ok(workers.includes(other) && !workers.includes(victim));
      });
    }

    await all.test('workers are restarted on the same ports when all die at once', async (t) => {
      const earlier = failures().length;
      for (const pid of await workersOf(running)) process.kill(pid, 'SIGKILL');
      await printed(running, 'failure', earlier + 2);
      const isBack = () =>
        fetch(`${running.http}/health`).then(
          (response) => response.ok,
          () => false,
        );
      await untilWorkers(isBack, 'a new worker responds');
      const client = usersClient(t, running.grpc);
      // A worker opens its HTTP port first.
      const isServing = async () => (await getUser(client, 1)).code === status.OK;
      await untilWorkers(isServing, 'a new worker responds to a call');
    });

    await all.test('workers close the database, and print the addresses and each request once', async (t) => {
      const isRemoved = async (pool: Pool): Promise<boolean> => {
        await create(pool.http, 'Ada');
        assert.equal(await pool.end(), 0);
        assert.equal(pool.lines.filter(({ event }) => event === 'listening').length, 1);
        const ids = pool.lines.filter(({ event }) => event === 'request').map(({ id }) => id);
        assert.equal(new Set(ids).size, ids.length, 'each request has one line');
        assert.ok(existsSync(join(pool.folder, 'users.db')));
        return !existsSync(join(pool.folder, 'users.db-wal'));
      };
      await scrapeBoth(t, running);
      // SQLite leaves the log if two processes close the database at the same moment, which is rare.
      assert.ok(
        (await isRemoved(running)) || (await isRemoved(await start(t))) || (await isRemoved(await start(t))),
      );
    });
  });
});
