import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openForwarder } from '../../test/kit/forwarder.ts';
import { startPostgres } from '../../test/kit/postgres.ts';

/** A database and its possible faults. */
export interface Database {
  readonly url: string;
  /** Each function causes a fault, and resolves when the fault is over. */
  readonly faults: Readonly<Record<string, () => Promise<void>>>;
  /** Moves the database to another server. Absent if there is none. */
  readonly failOver?: () => Promise<void>;
}

const downMs = 1_000;

export async function openSqlite(stack: AsyncDisposableStack): Promise<Database> {
  const folder = await mkdtemp(join(tmpdir(), 'feed-'));
  stack.defer(() => rm(folder, { recursive: true }));
  return { url: `sqlite:${join(folder, 'users.db')}`, faults: {} };
}

export async function openPostgres(stack: AsyncDisposableStack): Promise<Database> {
  const postgres = await startPostgres({ shared_buffers: '256MB', max_connections: '200' });
  stack.defer(() => postgres.close());
  const database = new URL(await postgres.createDatabase()).pathname.slice(1);
  const forwarder = await openForwarder(postgres.server.port);
  stack.defer(() => forwarder.close());
  let server = postgres.server;
  const folder = await mkdtemp(join(tmpdir(), 'feed-standbys-'));
  // PostgreSQL may run as another user.
  await chmod(folder, 0o755);
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  let standbys = 0;
  const restart = (mode: 'fast' | 'immediate') => async () => {
    await server.stop(mode);
    await sleep(downMs);
    await server.start();
  };
  return {
    url: server.url(database, forwarder.port),
    faults: {
      'the database crashes': restart('immediate'),
      'the database restarts': restart('fast'),
      'all sessions end': async () => void (await server.terminateBackends(database)),
      'the network is cut': async () => forwarder.cut(),
    },
    async failOver() {
      standbys += 1;
      const primary = server;
      // A copy of the configuration of the primary, before it waits for its standby.
      const standby =
        standbys === 1
          ? await postgres.createStandby()
          : await primary.createStandby(join(folder, `standby-${standbys}`));
      stack.defer(() => standby.stop('immediate'));
      await primary.commitOnStandby();
      // Earlier writes may have been read before they were replicated.
      await sleep(downMs);
      await primary.stop('immediate');
      await standby.promote();
      forwarder.moveTo(standby.port);
      forwarder.cut();
      server = standby;
    },
  };
}
