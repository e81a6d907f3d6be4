import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Forwarder } from '../../test/kit/forwarder.ts';
import { type Cluster, type Node, run } from './cluster.ts';
import type { Fault } from './plan.ts';

/** A cluster, and the process that a fault is for. */
type Scene = Cluster & Node & { readonly ms: number };

/** Begins a fault. Resolves to what ends it, or to the reason if this machine cannot have it. */
type Begin = (scene: Scene) => Promise<(() => unknown) | string | undefined>;

const faults = {
  async stop({ service }) {
    await service.signal('SIGSTOP');
    return () => service.signal('SIGCONT');
  },
  async kill({ service }) {
    await service.signal('SIGKILL');
    return () => service.start();
  },
  async terminate({ service }) {
    await service.signal('SIGTERM');
    return () => service.start();
  },
  async 'kill worker'({ service: { pid } }) {
    const [worker] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    if (worker === undefined) return 'no worker process is running';
    process.kill(Number(worker), 'SIGKILL');
    return undefined;
  },
  'hang up': async ({ service }) => void (await service.signal('SIGHUP')),
  'cut clients': async ({ clients }) => void clients.cut(),
  'delay clients': async ({ clients }) => freeze(clients),
  async descriptors({ service: { pid, port } }) {
    const prlimit = (...args: string[]) => run('prlimit', ['--pid', String(pid), ...args]);
    const { stdout } = await prlimit('--nofile', '--raw', '-o', 'SOFT,HARD', '--noheadings');
    const [soft, hard] = stdout.trim().split(/\s+/);
    await prlimit(`--nofile=${readdirSync(`/proc/${pid}/fd`).length + 2}:${hard}`);
    const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    return () => {
      for (const socket of sockets) socket.destroy();
      return prlimit(`--nofile=${soft}:${hard}`);
    };
  },
  async clock({ clock, ms }) {
    if (clock === undefined) return 'libfaketime is not installed';
    writeFileSync(clock, ms % 2 === 0 ? '+2h\n' : '-2h\n');
    return () => writeFileSync(clock, '+0s\n');
  },
  async 'disk full'({ data }) {
    if (process.getuid?.() !== 0) return 'only root can mount a small disk';
    const filler = join(data, 'filler');
    try {
      // The disk is smaller than this.
      writeFileSync(filler, Buffer.alloc(64 << 20));
    } catch {}
    return () => rm(filler, { force: true });
  },
  async 'file away'({ data, ms }) {
    const file = join(data, `users.db${['', '-wal', '-shm'][ms % 3]}`);
    renameSync(file, `${file}.away`);
    return () => renameSync(`${file}.away`, file);
  },
  async 'crash database'({ postgres }) {
    await postgres?.primary.stop('immediate');
    return () => postgres?.primary.start();
  },
  async 'restart database'({ postgres }) {
    await postgres?.primary.stop('fast');
    return () => postgres?.primary.start();
  },
  'end sessions': async ({ postgres }) => void (await postgres?.primary.terminateBackends(postgres.database)),
  'cut database': async ({ postgres }) => void postgres?.network.cut(),
  'delay database': async ({ postgres }) => freeze(postgres?.network),
  async 'fail over'({ postgres }) {
    const { primary, standby, network } = postgres ?? {};
    if (standby === undefined) return 'there is no standby';
    await primary?.stop('immediate');
    await standby.promote();
    return () => network?.moveTo(standby.port);
  },
} satisfies Record<string, Begin>;

export type FaultKind = keyof typeof faults;

/** Makes a fault, and ends it after its time; resolves to the reason if this machine cannot have it. */
export async function inflict({ kind, target, ms }: Fault, cluster: Cluster): Promise<string | undefined> {
  const node = cluster.nodes[target];
  if (node === undefined) throw new Error(`there is no process ${target}`);
  const begin: Begin = faults[kind];
  const end = await begin({ ...cluster, ...node, ms });
  if (typeof end === 'string') return end;
  await sleep(ms);
  await end?.();
  return undefined;
}

function freeze(forwarder: Forwarder | undefined): () => void {
  forwarder?.freeze();
  return () => forwarder?.thaw();
}
