import { readdirSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, run } from './cluster.ts';
import type { Fault, FaultKind } from './plan.ts';

/** Makes a fault and mends it again; resolves to why it cannot be had here, or to nothing. */
export async function inflict(fault: Fault, cluster: Cluster): Promise<string | undefined> {
  const left = await faults[fault.kind](cluster, fault);
  return typeof left === 'string' ? left : undefined;
}

type Inflict = (cluster: Cluster, fault: Fault) => Promise<unknown>;

function processOf({ processes }: Cluster, { target }: Fault) {
  const found = processes[target];
  if (found === undefined) throw new Error(`no process ${target}`);
  return found;
}

function postgresOf({ postgres }: Cluster) {
  if (postgres === undefined) throw new Error('no PostgreSQL');
  return postgres;
}

const faults: Readonly<Record<FaultKind, Inflict>> = {
  async stop(cluster, fault) {
    const target = processOf(cluster, fault);
    await target.signal('SIGSTOP');
    await sleep(fault.ms);
    await target.signal('SIGCONT');
  },
  async kill(cluster, fault) {
    const target = processOf(cluster, fault);
    await target.signal('SIGKILL');
    await sleep(fault.ms / 4);
    await target.start();
  },
  async terminate(cluster, fault) {
    const target = processOf(cluster, fault);
    await target.signal('SIGTERM');
    await target.start();
  },
  async 'kill worker'(cluster, fault) {
    const [worker] = processOf(cluster, fault).children();
    if (worker === undefined) return 'no worker process is running';
    process.kill(worker, 'SIGKILL');
    await sleep(fault.ms);
    return undefined;
  },
  async 'hang up'(cluster, fault) {
    await processOf(cluster, fault).signal('SIGHUP');
    await sleep(fault.ms);
  },
  async 'cut clients'({ clientSide }, fault) {
    clientSide[fault.target]?.cut();
  },
  async 'delay clients'({ clientSide }, fault) {
    clientSide[fault.target]?.freeze();
    await sleep(fault.ms);
    clientSide[fault.target]?.thaw();
  },
  async descriptors(cluster, fault) {
    const { pid, port } = processOf(cluster, fault);
    const limit = (value: string) => run('prlimit', ['--pid', String(pid), `--nofile=${value}`]);
    const { stdout } = await run('prlimit', [
      '--pid',
      String(pid),
      '--nofile',
      '--raw',
      '-o',
      'SOFT,HARD',
      '--noheadings',
    ]);
    const [soft = '', hard = ''] = stdout.trim().split(/\s+/);
    await limit(`${readdirSync(`/proc/${pid}/fd`).length + 2}:${hard}`);
    const sockets = Array.from({ length: 8 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    await sleep(fault.ms);
    for (const socket of sockets) socket.destroy();
    await limit(`${soft}:${hard}`);
  },
  async clock({ clock }, fault) {
    if (clock === undefined) return 'libfaketime is not installed';
    writeFileSync(clock, fault.ms % 2 === 0 ? '+2h\n' : '-2h\n');
    await sleep(fault.ms);
    writeFileSync(clock, '+0s\n');
    return undefined;
  },
  async 'disk full'({ file = '' }, fault) {
    if (process.getuid?.() !== 0) return 'only root can mount a small disk';
    const filler = join(dirname(file), 'filler');
    try {
      // It ends where the disk does.
      writeFileSync(filler, Buffer.alloc(64 << 20));
    } catch {}
    await sleep(fault.ms);
    await rm(filler, { force: true });
    return undefined;
  },
  async 'file away'({ file = '' }, fault) {
    const moved = `${file}${['', '-wal', '-shm'][fault.ms % 3]}`;
    renameSync(moved, `${moved}.away`);
    await sleep(fault.ms);
    renameSync(`${moved}.away`, moved);
  },
  async 'crash database'(cluster, fault) {
    const { primary } = postgresOf(cluster);
    await primary.stop('immediate');
    await sleep(fault.ms);
    await primary.start();
  },
  async 'restart database'(cluster) {
    const { primary } = postgresOf(cluster);
    await primary.stop('fast');
    await primary.start();
  },
  async 'end sessions'(cluster) {
    const { primary, database } = postgresOf(cluster);
    await primary.terminateBackends(database);
  },
  async 'cut database'(cluster) {
    postgresOf(cluster).network.cut();
  },
  async 'delay database'(cluster, fault) {
    const { network } = postgresOf(cluster);
    network.freeze();
    await sleep(fault.ms);
    network.thaw();
  },
  async 'fail over'(cluster) {
    const { primary, standby, network } = postgresOf(cluster);
    if (standby === undefined) return 'there is no standby';
    await primary.stop('immediate');
    await standby.promote();
    network.moveTo(standby.port);
    return undefined;
  },
};
