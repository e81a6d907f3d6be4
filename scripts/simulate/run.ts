import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type World } from './client.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { Follower, lastPosition } from './follower.ts';
import type { Entry, FaultEntry, FeedEntry, History } from './history.ts';
import { inflict } from './nemesis.ts';
import type { Plan, Step } from './plan.ts';

export interface RunOptions {
  readonly defect?: string | undefined;
  readonly onProgress?: (done: number) => void;
  /** Asked now and then, while no request is under way, whether the rest can be left out. */
  readonly isEnough?: (history: History) => boolean;
  /** A folder to keep the logs of the processes in. */
  readonly keep?: string | undefined;
}

const settleLimitMs = 600_000;
const stepsBetweenLooks = 150;

/** Runs a plan to its end, and resolves to what happened. */
export async function runPlan(
  plan: Plan,
  { defect, onProgress, isEnough, keep }: RunOptions = {},
): Promise<History> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster({ plan: plan.store, seed: plan.seed, defect, stack });
  const entries: Entry[] = [];
  const faults: FaultEntry[] = [];
  const feed: FeedEntry[] = [];
  const startedAt = performance.now();
  const now = () => Math.round((performance.now() - startedAt) * 1_000) / 1_000;
  const world: World = {
    addresses: cluster.addresses,
    now,
    record: (entry) => entries.push(entry),
    users: [],
    posts: [],
  };
  const clients = Array.from({ length: plan.clients }, (_, i) => new Client(i, world));
  stack.defer(() => {
    for (const client of clients) client.close();
  });
  const followers = plan.followers.map((one) => new Follower(one, world, (entry) => feed.push(entry)));
  const following = Promise.all(followers.map((follower) => follower.run()));
  let done = 0;
  let isOver = false;
  let wake = Promise.withResolvers<void>();
  const work = async (steps: readonly Step[]) => {
    const each = clients.map(async (client, i) => {
      for (const step of steps.filter((one) => one.client === i)) {
        await client.run(step);
        done += 1;
        wake.resolve();
        onProgress?.(done);
      }
    });
    await Promise.all(each);
  };
  const nemesis = async () => {
    for (const { at, kind, target, ms } of plan.faults) {
      while (done < at && !isOver) {
        await wake.promise;
        wake = Promise.withResolvers();
      }
      if (isOver) return;
      const begun = { fault: kind, target, start: now(), end: Number.MAX_SAFE_INTEGER };
      const place = faults.push(begun) - 1;
      const skipped = await inflict({ at, kind, target, ms }, cluster);
      faults[place] = { ...begun, end: now(), ...(skipped && { skipped }) };
    }
  };
  const trouble = nemesis();
  // It is awaited below; until then it must not end the process.
  trouble.catch(() => undefined);
  const length = isEnough === undefined ? plan.steps.length : stepsBetweenLooks;
  for (let from = 0; from < plan.steps.length && !isOver; from += length) {
    await work(plan.steps.slice(from, from + length));
    isOver = isEnough?.({ entries, faults, feed }) ?? false;
  }
  wake.resolve();
  await trouble;
  if (!isOver) await settle(cluster);
  // Whatever was acknowledged must be there at the end, in every process.
  const last: Step = {
    n: plan.steps.length,
    client: 0,
    process: 0,
    pauseMs: 0,
    kind: 'get',
    record: 'user',
    rank: 0,
    guard: 'none',
  };
  if (!isOver) await clients[0]?.readAll(last);
  const end = isOver ? 0 : await lastPosition(cluster.addresses[0]?.http ?? '');
  for (const follower of followers) follower.finish(end);
  await following;
  if (keep !== undefined) {
    for (const i of cluster.processes.keys()) {
      await copyFile(
        join(cluster.folder, `process-${i}.log`),
        join(keep, `seed-${plan.seed}-process-${i}.log`),
      );
    }
  }
  return { entries, faults, feed };
}

/** Waits until every process is ready again. */
async function settle({ addresses }: Cluster): Promise<void> {
  const deadline = performance.now() + settleLimitMs;
  for (const { http } of addresses) {
    for (;;) {
      const isReady = await fetch(`${http}/health/ready`).then(
        async (response) => {
          await response.arrayBuffer();
          return response.ok;
        },
        () => false,
      );
      if (isReady) break;
      if (performance.now() > deadline) throw new Error(`${http} did not become ready again`);
      await sleep(50);
    }
  }
}
