import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type World } from './client.ts';
import { type Cluster, startCluster } from './cluster.ts';
import type { Entry, FaultEntry, History } from './history.ts';
import { inflict } from './nemesis.ts';
import type { Plan, Step } from './plan.ts';

export interface RunOptions {
  readonly defect?: string | undefined;
  readonly onProgress?: (done: number) => void;
  /** A folder to keep the logs of the processes in. */
  readonly keep?: string | undefined;
}

const settleLimitMs = 30_000;

/** Runs a plan to its end, and resolves to what happened. */
export async function runPlan(plan: Plan, { defect, onProgress, keep }: RunOptions = {}): Promise<History> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster({ plan: plan.store, seed: plan.seed, defect, stack });
  const entries: Entry[] = [];
  const faults: FaultEntry[] = [];
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
  let done = 0;
  let wake = Promise.withResolvers<void>();
  const work = clients.map(async (client, i) => {
    for (const step of plan.steps) {
      if (step.client !== i) continue;
      await client.run(step);
      done += 1;
      wake.resolve();
      onProgress?.(done);
    }
  });
  const nemesis = async () => {
    for (const fault of plan.faults) {
      while (done < fault.at) {
        await wake.promise;
        wake = Promise.withResolvers();
      }
      const start = now();
      const skipped = await inflict(fault, cluster);
      faults.push({
        fault: fault.kind,
        target: fault.target,
        start,
        end: now(),
        ...(skipped && { skipped }),
      });
    }
  };
  await Promise.all([...work, nemesis()]);
  await settle(cluster);
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
  await clients[0]?.readAll(last);
  if (keep !== undefined) {
    for (const i of cluster.processes.keys()) {
      await copyFile(
        join(cluster.folder, `process-${i}.log`),
        join(keep, `seed-${plan.seed}-process-${i}.log`),
      );
    }
  }
  return { entries, faults };
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
