import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Forwarder } from '../../test/kit/forwarder.ts';
import type { ServiceProcess } from '../harness/process.ts';
import { type Cluster, run } from './cluster.ts';
import type { Fault, FaultKind } from './plan.ts';

/** A cluster, and the process that a fault is for. */
interface Scene extends Cluster {
  readonly target: ServiceProcess;
  /** The connections between the clients and that process. */
  readonly clients: Forwarder;
  readonly ms: number;
}

/** Makes a fault and undoes it; resolves to the reason if this machine cannot make it. */
export async function inflict({ kind, target: n, ms }: Fault, cluster: Cluster): Promise<string | undefined> {
  const [target, clients] = [cluster.processes[n], cluster.forwarders[n]];
  if (target === undefined || clients === undefined) throw new Error(`there is no process ${n}`);
  const reason = await faults[kind]({ ...cluster, target, clients, ms });
  return typeof reason === 'string' ? reason : undefined;
}

async function freeze(forwarder: Forwarder | undefined, ms: number): Promise<void> {
  forwarder?.freeze();
  await sleep(ms);
  forwarder?.thaw();
}

const faults: Readonly<Record<FaultKind, (scene: Scene) => Promise<unknown>>> = {
  async stop({ target, ms }) {
    await target.signal('SIGSTOP');
    await sleep(ms);
    await target.signal('SIGCONT');
  },
  async kill({ target, ms }) {
    await target.signal('SIGKILL');
    await sleep(ms / 4);
    await target.start();
  },
  async terminate({ target }) {
    await target.signal('SIGTERM');
    await target.start();
  },
  async 'kill worker'({ target: { pid }, ms }) {
    const [worker] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    if (worker === undefined) return 'no worker process is running';
    process.kill(Number(worker), 'SIGKILL');
    return sleep(ms);
  },
  async 'hang up'({ target, ms }) {
    await target.signal('SIGHUP');
    await sleep(ms);
  },
  'cut clients': async ({ clients }) => clients.cut(),
  'delay clients': ({ clients, ms }) => freeze(clients, ms),
  async descriptors({ target: { pid, port }, ms }) {
    const prlimit = (...args: string[]) => run('prlimit', ['--pid', String(pid), ...args]);
    const { stdout } = await prlimit('--nofile', '--raw', '-o', 'SOFT,HARD', '--noheadings');
    const [soft, hard] = stdout.trim().split(/\s+/);
    await prlimit(`--nofile=${readdirSync(`/proc/${pid}/fd`).length + 2}:${hard}`);
    const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    await sleep(ms);
    for (const socket of sockets) socket.destroy();
    await prlimit(`--nofile=${soft}:${hard}`);
  },
  async clock({ clock, ms }) {
    if (clock === undefined) return 'libfaketime is not installed';
    writeFileSync(clock, ms % 2 === 0 ? '+2h\n' : '-2h\n');
    await sleep(ms);
    return writeFileSync(clock, '+0s\n');
  },
  async 'disk full'({ data, ms }) {
    if (process.getuid?.() !== 0) return 'only root can mount a small disk';
    const filler = join(data, 'filler');
    try {
      // The disk is smaller than this.
      writeFileSync(filler, Buffer.alloc(64 << 20));
    } catch {}
    await sleep(ms);
    return rm(filler, { force: true });
  },
  async 'file away'({ data, ms }) {
    const file = join(data, `users.db${['', '-wal', '-shm'][ms % 3]}`);
    renameSync(file, `${file}.away`);
    await sleep(ms);
    renameSync(`${file}.away`, file);
  },
  async 'crash database'({ postgres, ms }) {
    await postgres?.primary.stop('immediate');
    await sleep(ms);
    await postgres?.primary.start();
  },
  async 'restart database'({ postgres }) {
    await postgres?.primary.stop('fast');
    await postgres?.primary.start();
  },
  'end sessions': async ({ postgres }) => postgres?.primary.terminateBackends(postgres.database),
  'cut database': async ({ postgres }) => postgres?.network.cut(),
  'delay database': ({ postgres, ms }) => freeze(postgres?.network, ms),
  async 'fail over'({ postgres }) {
    const { primary, standby, network } = postgres ?? {};
    if (standby === undefined) return 'there is no standby';
    await primary?.stop('immediate');
    await standby.promote();
    return network?.moveTo(standby.port);
  },
};
