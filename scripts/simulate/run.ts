import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../../test/kit/postgres-session.ts';
import { isOk } from '../harness/process.ts';
import { Client, type World } from './client.ts';
import { startCluster } from './cluster.ts';
import { type End, follow } from './follower.ts';
import type { History } from './history.ts';
import { inflict } from './nemesis.ts';
import type { Plan } from './plan.ts';

export interface RunOptions {
  readonly defect?: string | undefined;
  readonly onProgress?: (done: number) => void;
  /** Whether the run can end early. It is called now and then, while no request is open. */
  readonly isEnough?: (history: History) => boolean;
  /** A folder to keep the logs of the processes in. */
  readonly keep?: string | undefined;
}

const settleLimitMs = 600_000;
const stepsBetweenLooks = 150;

/** Runs a plan, and resolves to its history. */
export async function runPlan(plan: Plan, options: RunOptions = {}): Promise<History> {
  const { defect, onProgress, isEnough, keep } = options;
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster(plan, defect, stack);
  const { addresses } = cluster;
  const startedAt = performance.now();
  const now = () => Math.round((performance.now() - startedAt) * 1_000) / 1_000;
  const history: History = { entries: [], faults: [], feed: [] };
  const world: World = { ...history, addresses, now, users: [], posts: [] };
  const clients = Array.from({ length: plan.clients }, (_, i) => new Client(i, world));
  const ending = new AbortController();
  const end: End = { signal: ending.signal, last: Number.POSITIVE_INFINITY };
  const following = Promise.all(plan.followers.map((follower) => follow(follower, world, end)));

  let done = 0;
  let isOver = false;
  let wake = Promise.withResolvers<void>();
  const makeFaults = async () => {
    for (const fault of plan.faults) {
      while (done < fault.at && !isOver) {
        await wake.promise;
        wake = Promise.withResolvers();
      }
      if (isOver) return;
      const begun = { fault: fault.kind, target: fault.target, start: now(), end: Number.MAX_SAFE_INTEGER };
      const place = history.faults.push(begun) - 1;
      const skipped = await inflict(fault, cluster);
      history.faults[place] = { ...begun, end: now(), skipped };
    }
  };
  const faults = makeFaults();
  // A failure is reported below. Until then it must not end the process.
  faults.catch(() => undefined);
  const length = isEnough === undefined ? plan.steps.length : stepsBetweenLooks;
  for (let from = 0; from < plan.steps.length && !isOver; from += length) {
    const steps = plan.steps.slice(from, from + length);
    const work = clients.map(async (client, i) => {
      for (const step of steps.filter((one) => one.client === i)) {
        await client.run(step);
        done += 1;
        wake.resolve();
        onProgress?.(done);
      }
    });
    await Promise.all(work);
    isOver = isEnough?.(history) ?? false;
  }
  wake.resolve();
  await faults;

  if (isOver) end.last = 0;
  else {
    for (const { http } of addresses)
      await until(() => isOk(`${http}/health/ready`), `${http} is ready again`, settleLimitMs);
    // Every process must have every acknowledged write.
    await clients[0]?.readAll(plan.steps.length);
    end.last = await lastPosition(addresses[0]?.http);
  }
  ending.abort();
  await following;
  for (const i of keep === undefined ? [] : cluster.processes.keys()) {
    const log = `process-${i}.log`;
    await copyFile(join(cluster.folder, log), join(keep ?? '', `seed-${plan.seed}-${log}`));
  }
  return history;
}

/** The position of the last change. */
async function lastPosition(base: string | undefined): Promise<number> {
  const { headers } = await fetch(`${base}/users?limit=1`);
  return Number(/after=(\d+)[^>]*>; rel="monitor"/.exec(headers.get('link') ?? '')?.[1]);
}
