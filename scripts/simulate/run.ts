import { writeFile } from 'node:fs/promises';
import { until } from '../../test/kit/postgres-session.ts';
import { isOk } from '../harness/process.ts';
import { Clients } from './client.ts';
import { type RunOptions, startCluster } from './cluster.ts';
import type { History } from './history.ts';
import { inflict } from './nemesis.ts';
import type { Fault, Plan } from './plan.ts';

const settleLimitMs = 600_000;

/** Runs a plan, and resolves to its history. */
export async function runPlan(plan: Plan, options: RunOptions): Promise<History> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster(plan, options, stack);
  const clients = new Clients(cluster.nodes);
  const { history } = clients;
  const end = { position: Number.POSITIVE_INFINITY };
  stack.defer(() => {
    end.position = 0;
  });
  const following = Promise.all(plan.followers.map((follower) => clients.follow(follower, end)));

  const make = async (fault: Fault) => {
    const start = clients.now();
    const skipped = await inflict(fault, cluster);
    history.faults.push({ fault: fault.kind, target: fault.target, start, end: clients.now(), skipped });
  };
  let done = 0;
  let faults = Promise.resolve();
  const stepsOf = Map.groupBy(plan.steps, ({ client }) => client);
  const work = [...stepsOf.values()].map(async (steps) => {
    for (const step of steps) {
      await clients.run(step);
      done += 1;
      for (const fault of plan.faults.filter(({ at }) => at === done)) {
        faults = faults.then(() => make(fault));
        // A failure is reported below. Until then it must not end the process.
        faults.catch(() => undefined);
      }
    }
  });
  await Promise.all(work);
  await faults;

  for (const { http } of cluster.nodes) {
    await until(() => isOk(`${http}/health/ready`), `${http} is ready again`, settleLimitMs);
  }
  // Every process must have every acknowledged write.
  await clients.readAll(plan.steps.length);
  const { headers } = await fetch(`${cluster.nodes[0]?.http}/users?limit=1`);
  end.position = Number(/after=(\d+)[^>]*>; rel="monitor"/.exec(headers.get('link') ?? '')?.[1]);
  await following;
  const lines = [...history.entries, ...history.faults].map((line) => `${JSON.stringify(line)}\n`);
  await writeFile(`${cluster.kept}.ndjson`, lines);
  return history;
}
