import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, type Node, run } from './cluster.ts';
import type { Fault } from './plan.ts';

/** A cluster, and the process that a fault is for. */
type Scene = Cluster & Node & { readonly ms: number };

/** Begins a fault. Returns its beginning and what ends it, or why this machine cannot have it. */
type Begin = (scene: Scene) => Parts | string | Promise<Parts | string>;
type Parts = readonly [begun: unknown, end?: () => unknown];

const faults = {
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
    const prlimit = (...args: string[]) => run('prlimit', ['--pid', String(pid), ...args]);
    const { stdout } = await prlimit('--nofile', '--raw', '-o', 'SOFT,HARD', '--noheadings');
    const [soft, hard] = stdout.trim().split(/\s+/);
    await prlimit(`--nofile=${readdirSync(`/proc/${pid}/fd`).length + 2}:${hard}`);
    const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    const end = () => {
      for (const socket of sockets) socket.destroy();
      return prlimit(`--nofile=${soft}:${hard}`);
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
} satisfies Record<string, Begin>;

export type FaultKind = keyof typeof faults;

/** Makes a fault, and ends it after its time; resolves to the reason if this machine cannot have it. */
export async function inflict({ kind, target, ms }: Fault, cluster: Cluster): Promise<string | undefined> {
  const node = cluster.nodes[target];
  if (node === undefined) throw new Error(`there is no process ${target}`);
  const begin: Begin = faults[kind];
  const parts = await begin({ ...cluster, ...node, ms });
  if (typeof parts === 'string') return parts;
  const [begun, end] = parts;
  await begun;
  await sleep(ms);
  await end?.();
  return undefined;
}
