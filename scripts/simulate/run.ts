import { copyFile, writeFile } from 'node:fs/promises';
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
  readonly defect?: string;
  /** A folder to keep the history and the logs of the processes in. */
  readonly keep?: string | undefined;
  readonly onProgress?: (done: number) => void;
  /** Whether the run can end early. It is called now and then, while no request is open. */
  readonly isEnough?: (history: History) => boolean;
}

const settleLimitMs = 600_000;
const stepsBetweenLooks = 80;

/** Runs a plan, and resolves to its history. */
export async function runPlan(plan: Plan, options: RunOptions): Promise<History> {
  const { defect, keep, onProgress, isEnough } = options;
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster(plan, defect, stack);
  const { nodes, folder } = cluster;
  const startedAt = performance.now();
  const now = () => Math.round((performance.now() - startedAt) * 1_000) / 1_000;
  const history: History = { entries: [], faults: [], feed: [] };
  const world: World = { ...history, nodes, now, users: [], posts: [] };
  const clients = Array.from({ length: plan.clients }, (_, i) => new Client(i, world));
  const ending = new AbortController();
  const end: End = { signal: ending.signal, last: Number.POSITIVE_INFINITY };
  stack.defer(() => {
    end.last = 0;
    ending.abort();
  });
  const following = Promise.all(plan.followers.map((follower) => follow(follower, world, end)));

  const make = async (fault: Fault) => {
    const start = now();
    const skipped = await inflict(fault, cluster);
    history.faults.push({ fault: fault.kind, target: fault.target, start, end: now(), skipped });
  };
  let done = 0;
  let making = Promise.resolve();
  const length = isEnough === undefined ? plan.steps.length : stepsBetweenLooks;
  for (let from = 0; from < plan.steps.length && !isEnough?.(history); from += length) {
    const steps = Map.groupBy(plan.steps.slice(from, from + length), ({ client }) => client);
    const work = clients.map(async (client, i) => {
      for (const step of steps.get(i) ?? []) {
        await client.run(step);
        done += 1;
        for (const fault of plan.faults.filter(({ at }) => at === done)) {
          making = making.then(() => make(fault));
          // A failure is reported below. Until then it must not end the process.
          making.catch(() => undefined);
        }
        onProgress?.(done);
      }
    });
    await Promise.all(work);
  }
  await making;

  for (const { http } of nodes)
    await until(() => isOk(`${http}/health/ready`), `${http} is ready again`, settleLimitMs);
  // Every process must have every acknowledged write.
  await clients[0]?.readAll(plan.steps.length);
  const { headers } = await fetch(`${nodes[0]?.http}/users?limit=1`);
  end.last = Number(/after=(\d+)[^>]*>; rel="monitor"/.exec(headers.get('link') ?? '')?.[1]);
  ending.abort();
  await following;
  if (keep === undefined) return history;
  const name = [plan.seed, defect?.replaceAll(' ', '-')].filter(Boolean).join('-');
  const lines = Object.values(history).flat();
  await writeFile(
    join(keep, `history-${name}.ndjson`),
    lines.map((line) => `${JSON.stringify(line)}\n`),
  );
  for (const i of nodes.keys()) {
    await copyFile(join(folder, `process-${i}.log`), join(keep, `process-${i}-${name}.log`));
  }
  return history;
}
