import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePorts } from '../../test/kit/free-ports.ts';
import { startGuard } from '../../test/kit/postgres.ts';
import { findNobody } from '../../test/kit/postgres-binaries.ts';
import { until } from '../../test/kit/until.ts';
import { ask, nodeConfig, postgresPids, type Tools } from './patroni-tools.ts';

const password = 'secret';
const names = ['a', 'b', 'c'] as const;
const startLimitMs = 90_000;
const failoverLimitMs = 120_000;
const logLines = 300;

type User = { readonly uid: number; readonly gid: number } | undefined;

interface Node {
  readonly name: string;
  readonly port: number;
  readonly rest: string;
  readonly folder: string;
  patroni: ChildProcess;
}

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** The times at which another node took over, by `performance.now()`. */
export interface Takeover {
  /** When it had the leader's key. */
  readonly ledAt: number;
  /** When its PostgreSQL was promoted to the primary, which Patroni starts after that. */
  readonly promotedAt: number;
  /** When a plain session had committed a write, for which the primary waits for a standby. */
  readonly writtenAt: number;
}

/** etcd and three Patroni nodes with synchronous replication, on 127.0.0.1. */
export class PatroniCluster {
  readonly #folder: string;
  readonly #tools: Tools;
  readonly #user: User;
  readonly #guard: { release(): void };
  readonly #nodes: Node[] = [];
  #etcd: ChildProcess | undefined;
  #etcdPort = 0;

  private constructor(folder: string, tools: Tools, user: User) {
    this.#folder = folder;
    this.#tools = tools;
    this.#user = user;
    this.#guard = startGuard(folder);
  }

  static async start(tools: Tools): Promise<PatroniCluster> {
    const folder = await mkdtemp(join(tmpdir(), 'users-service-patroni-'));
    await chmod(folder, 0o755);
    const cluster = new PatroniCluster(
      folder,
      tools,
      process.getuid?.() === 0 ? await findNobody() : undefined,
    );
    try {
      await cluster.#startEtcd();
      const ports = await freePorts(names.length * 2);
      for (const [i, name] of names.entries()) {
        await cluster.#addNode(name, ports[2 * i] ?? 0, ports[2 * i + 1] ?? 0);
      }
      await cluster.untilHealthy();
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** The URL of a database that names all nodes. */
  url(database: string): string {
    const hosts = this.#nodes.map(({ port }) => `127.0.0.1:${port}`);
    return `postgres://postgres:${password}@${hosts}/${database}`;
  }

  /** Resolves to the leader's name when it has a synchronous standby, and both standbys follow it. */
  async untilHealthy(): Promise<string> {
    let leader = '';
    const isHealthy = async () => {
      const members = await this.#members();
      const running = members.filter(({ state }) => state === 'running' || state === 'streaming');
      const ofRole = (role: string) => running.filter((member) => member.role === role);
      leader = ofRole('leader')[0]?.name ?? '';
      const isComplete = running.length === names.length && members.length === names.length;
      return isComplete && leader !== '' && ofRole('sync_standby').length === 1;
    };
    const what = 'Patroni has a leader and two standbys';
    try {
      await until(isHealthy, what, startLimitMs).catch(async () => {
        await this.#copyAgain();
        await until(isHealthy, what, startLimitMs);
      });
    } catch (error) {
      throw new Error(`the cluster is not healthy:\n${this.#log()}`, { cause: error });
    }
    return leader;
  }

  /** Lets Patroni reinitialise each node that has not returned, as an operator would. */
  async #copyAgain(): Promise<void> {
    const members = await this.#members();
    for (const { name, rest } of this.#nodes) {
      const state = members.find((member) => member.name === name)?.state;
      if (state === 'running' || state === 'streaming') continue;
      console.log(`${name} is ${state} and is reinitialised`);
      await ask(`${rest}/reinitialize`, { method: 'POST', body: '{"force": true}' });
    }
  }

  /** Resolves when another node than the old leader has taken over. */
  async untilLedByAnother(old: string): Promise<Takeover> {
    const others = this.#nodes.filter(({ name }) => name !== old);
    let ledAt: number | undefined;
    for (const start = performance.now(); performance.now() - start < failoverLimitMs; ) {
      const answers = await Promise.all(others.map(({ rest }) => ask(`${rest}/primary`)));
      const leader = answers.findIndex((answer) => answer?.status === 200);
      if (leader !== -1) {
        ledAt ??= performance.now();
        if (JSON.parse(answers[leader]?.text ?? '').role === 'primary') {
          const promotedAt = performance.now();
          await this.#write(others[leader]?.port ?? 0);
          return { ledAt, promotedAt, writtenAt: performance.now() };
        }
      }
      await sleep(20);
    }
    throw new Error(`no new leader within ${failoverLimitMs} ms:\n${this.#log()}`);
  }

  async #write(port: number): Promise<void> {
    const login = { user: 'postgres', password, database: 'postgres' };
    const client = new pg.Client({ host: '127.0.0.1', port, ...login });
    await client.connect();
    await client.query(`SELECT pg_logical_emit_message(true, 'test', '')`);
    await client.end();
  }

  /** Kills all processes of a node at once, like the loss of its machine. */
  async kill(name: string): Promise<void> {
    const { patroni } = this.#node(name);
    const ended = once(patroni, 'exit');
    this.#signal(name, 'SIGKILL');
    await ended;
  }

  /** Starts the killed node again. */
  restart(name: string): void {
    const node = this.#node(name);
    node.patroni = this.#spawnPatroni(node.folder);
  }

  /** Stops all processes of a node. The kernel continues to accept connections. */
  freeze(name: string): void {
    this.#signal(name, 'SIGSTOP');
  }

  thaw(name: string): void {
    this.#signal(name, 'SIGCONT');
  }

  async switchOver(leader: string): Promise<void> {
    const init = { method: 'POST', body: JSON.stringify({ leader }) };
    const url = `${this.#node(leader).rest}/switchover`;
    // Patroni rejects a switchover while etcd is slow.
    await until(async () => (await fetch(url, init)).ok, 'Patroni accepts the switchover');
  }

  async close(): Promise<void> {
    for (const { name } of this.#nodes) this.#signal(name, 'SIGKILL');
    this.#etcd?.kill('SIGKILL');
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 10 });
    this.#guard.release();
  }

  async #startEtcd(): Promise<void> {
    const [client = 0, peer = 0] = await freePorts(2);
    this.#etcdPort = client;
    const urls = (port: number) => `http://127.0.0.1:${port}`;
    this.#etcd = this.#spawn('etcd', [
      ...['--data-dir', join(this.#folder, 'etcd'), '--initial-cluster', `default=${urls(peer)}`],
      ...['--listen-client-urls', urls(client), '--advertise-client-urls', urls(client)],
      ...['--listen-peer-urls', urls(peer), '--initial-advertise-peer-urls', urls(peer)],
    ]);
    await until(async () => (await ask(`${urls(client)}/health`))?.status === 200, 'etcd runs');
  }

  async #addNode(name: string, port: number, restPort: number): Promise<void> {
    const folder = join(this.#folder, name);
    await mkdir(folder);
    const rest = `127.0.0.1:${restPort}`;
    const bin = this.#tools.postgres;
    const config = nodeConfig({ name, folder, port, rest, bin, etcdPort: this.#etcdPort, password });
    // JSON is YAML.
    await writeFile(join(folder, 'patroni.yaml'), JSON.stringify(config));
    if (this.#user !== undefined) await chown(folder, this.#user.uid, this.#user.gid);
    this.#nodes.push({ name, port, rest: `http://${rest}`, folder, patroni: this.#spawnPatroni(folder) });
  }

  #spawnPatroni(folder: string): ChildProcess {
    return this.#spawn('patroni', [join(folder, 'patroni.yaml')], this.#user);
  }

  /** Starts a program that ends with this process, however this process ends. */
  #spawn(program: string, args: readonly string[], user?: User): ChildProcess {
    const log = openSync(join(this.#folder, `${program}.log`), 'a');
    const as = user === undefined ? [] : [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'];
    return spawn('setpriv', [...as, '--pdeathsig', 'KILL', program, ...args], {
      stdio: ['ignore', log, log],
    });
  }

  #node(name: string): Node {
    const node = this.#nodes.find((one) => one.name === name);
    if (node === undefined) throw new Error(`there is no node ${name}`);
    return node;
  }

  /** Signals Patroni first, so that it cannot start PostgreSQL again. */
  #signal(name: string, signal: NodeJS.Signals): void {
    const { patroni, folder } = this.#node(name);
    patroni.kill(signal);
    // Signal twice, because the server may be starting another process.
    for (let pass = 0; pass < 2; pass += 1) {
      for (const pid of postgresPids(folder)) {
        try {
          process.kill(pid, signal);
        } catch {
          // The process has already ended.
        }
      }
    }
  }

  /** The last lines of the logs of Patroni and its servers. */
  #log(): string {
    const lines = readFileSync(join(this.#folder, 'patroni.log'), 'utf8').split('\n');
    return lines
      .filter((line) => !/ HTTP\/1|GET \//.test(line))
      .slice(-logLines)
      .join('\n');
  }

  async #members(): Promise<readonly Member[]> {
    for (const { rest } of this.#nodes) {
      const answer = await ask(`${rest}/cluster`);
      if (answer?.status === 200) return JSON.parse(answer.text).members;
    }
    return [];
  }
}
