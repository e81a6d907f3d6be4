import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../test/kit/until.ts';
import { isOk } from '../harness/process.ts';
import { Clients } from './client.ts';
import { type Cluster, type Node, run, startCluster } from './cluster.ts';
import type { History } from './history.ts';
import type { Fault, Plan } from './plan.ts';

/** A cluster, and the process that a fault is for. */
type Scene = Cluster & Node & { readonly ms: number };

/** Begins a fault. Returns its beginning and what ends it, or why this machine cannot have it. */
type Begin = (scene: Scene) => Parts | string | Promise<Parts | string>;
type Parts = readonly [begun: unknown, end?: () => unknown];

const faults: Readonly<Record<string, Begin>> = {
  stop: ({ service }) => [service.signal('SIGSTOP'), () => service.signal('SIGCONT')],
  kill: ({ service }) => [service.signal('SIGKILL'), () => service.start()],
  terminate: ({ service }) => [service.signal('SIGTERM'), () => service.start()],
  'hang up': ({ service }) => [service.signal('SIGHUP')],
  'kill worker': ({ service: { pid } }) => {
    const [worker] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    return worker ? [process.kill(Number(worker), 'SIGKILL')] : 'no worker process is running';
  },
  'cut clients': ({ clients }) => [clients.cut()],
  'delay clients': ({ clients }) => [clients.freeze(), () => clients.thaw()],
  descriptors: async ({ service: { pid, port } }) => {
    const [, limit] = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8')) ?? [];
    const setLimit = (soft: unknown) => run('prlimit', ['--pid', String(pid), `--nofile=${soft}:`]);
    await setLimit(readdirSync(`/proc/${pid}/fd`).length + 2);
    const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    const end = () => {
      for (const socket of sockets) socket.destroy();
      return setLimit(limit);
    };
    return [sockets, end];
  },
  clock: ({ clock, ms }) => {
    if (clock === undefined) return 'libfaketime is not installed';
    return [writeFileSync(clock, ms % 2 === 0 ? '+2h\n' : '-2h\n'), () => writeFileSync(clock, '+0s\n')];
  },
  'disk full': ({ data }) => {
    if (process.getuid?.() !== 0) return 'only root can mount a small disk';
    const filler = join(data, 'filler');
    // The disk is smaller than this.
    const full = writeFile(filler, Buffer.alloc(64 << 20)).catch(() => undefined);
    return [full, () => rm(filler, { force: true })];
  },
  'file away': ({ data, ms }) => {
    const file = join(data, `users.db${['', '-wal', '-shm'][ms % 3]}`);
    return [renameSync(file, `${file}.away`), () => renameSync(`${file}.away`, file)];
  },
  'crash database': ({ postgres }) => [postgres?.primary.stop('immediate'), () => postgres?.primary.start()],
  'restart database': ({ postgres }) => [postgres?.primary.stop('fast'), () => postgres?.primary.start()],
  'end sessions': ({ postgres }) => [postgres?.primary.terminateBackends(postgres.database)],
  'cut database': ({ postgres }) => [postgres?.network.cut()],
  'delay database': ({ postgres }) => [postgres?.network.freeze(), () => postgres?.network.thaw()],
  'fail over': async ({ postgres }) => {
    const { primary, standby, network } = postgres ?? {};
    if (standby === undefined) return 'there is no standby';
    await primary?.stop('immediate');
    return [standby.promote(), () => network?.moveTo(standby.port)];
  },
};

/** Makes a fault, and ends it after its time. Resolves to the reason if this machine cannot have it. */
async function inflict({ kind, target, ms }: Fault, cluster: Cluster): Promise<string | undefined> {
  const node = cluster.nodes[target];
  const begin = faults[kind];
  if (node === undefined || begin === undefined) throw new Error(`no process ${target}, or no fault ${kind}`);
  const parts = await begin({ ...cluster, ...node, ms });
  if (typeof parts === 'string') return parts;
  const [begun, end] = parts;
  await begun;
  await sleep(ms);
  await end?.();
  return undefined;
}

const settleLimitMs = 600_000;

/** Runs a plan, perhaps with a planted defect. Resolves to its history, which a folder keeps with the logs. */
export async function runPlan(plan: Plan, keep?: string, defect?: string): Promise<History> {
  await using stack = new AsyncDisposableStack();
  const cluster = await startCluster(plan, stack, keep, defect);
  const clients = new Clients(cluster.nodes);
  const { history } = clients;
  const end = { position: Number.POSITIVE_INFINITY };
  stack.defer(() => void Object.assign(end, { position: 0 }));
  const following = Promise.all(plan.followers.map((follower) => clients.follow(follower, end)));

  const make = async (fault: Fault) => {
    const start = clients.now();
    const skipped = await inflict(fault, cluster);
    history.faults.push({ fault: fault.kind, target: fault.target, start, end: clients.now(), skipped });
  };
  let done = 0;
  let making = Promise.resolve();
  const stepsOf = Map.groupBy(plan.steps, ({ client }) => client);
  const work = [...stepsOf.values()].map(async (steps) => {
    for (const step of steps) {
      await clients.run(step);
      done += 1;
      for (const fault of plan.faults.filter(({ at }) => at === done)) {
        making = making.then(() => make(fault));
        // A failure is reported below. Until then it must not end the process.
        making.catch(() => undefined);
      }
    }
  });
  await Promise.all(work);
  await making;

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
