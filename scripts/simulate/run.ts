import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../../test/kit/postgres-session.ts';
import { isOk } from '../harness/process.ts';
import { Client, type World } from './client.ts';
import { startCluster } from './cluster.ts';
import { type End, follow } from './follower.ts';
import type { History } from './history.ts';
import { inflict } from './nemesis.ts';
import type { Fault, Plan } from './plan.ts';

export interface RunOptions {
  readonly defect?: string | undefined;
  /** A folder to keep the logs of the processes in. */
  readonly keep?: string | undefined;
  readonly onProgress?: (done: number) => void;
}

const settleLimitMs = 600_000;

/** Runs a plan, and resolves to its history. */
export async function runPlan(plan: Plan, { defect, keep = '', onProgress }: RunOptions): Promise<History> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster(plan, defect, stack);
  const { addresses, processes, folder } = cluster;
  const startedAt = performance.now();
  const now = () => Math.round((performance.now() - startedAt) * 1_000) / 1_000;
  const history: History = { entries: [], faults: [], feed: [] };
  const world: World = { ...history, addresses, now, users: [], posts: [] };
  const clients = Array.from({ length: plan.clients }, (_, i) => new Client(i, world));
  const ending = new AbortController();
  const end: End = { signal: ending.signal, last: Number.POSITIVE_INFINITY };
  const following = Promise.all(plan.followers.map((follower) => follow(follower, world, end)));

  const make = async (fault: Fault) => {
    const start = now();
    const skipped = await inflict(fault, cluster);
    history.faults.push({ fault: fault.kind, target: fault.target, start, end: now(), skipped });
  };
  let done = 0;
  let making = Promise.resolve();
  const work = clients.map(async (client, i) => {
    for (const step of plan.steps.filter((one) => one.client === i)) {
      await client.run(step);
      done += 1;
      for (const fault of plan.faults.filter(({ at }) => at === done))
        making = making.then(() => make(fault));
      onProgress?.(done);
    }
  });
  await Promise.all(work);
  await making;

  for (const { http } of addresses)
    await until(() => isOk(`${http}/health/ready`), `${http} is ready again`, settleLimitMs);
  // Every process must have every acknowledged write.
  await clients[0]?.readAll(plan.steps.length);
  const { headers } = await fetch(`${addresses[0]?.http}/users?limit=1`);
  end.last = Number(/after=(\d+)[^>]*>; rel="monitor"/.exec(headers.get('link') ?? '')?.[1]);
  ending.abort();
  await following;
  for (const i of keep === '' ? [] : processes.keys()) {
    await copyFile(join(folder, `process-${i}.log`), join(keep, `seed-${plan.seed}-process-${i}.log`));
  }
  return history;
}
