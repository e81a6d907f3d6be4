// Restarts the service repeatedly under the load of independent clients, and counts failed requests: first
// rolling restarts of workers with SIGHUP, then hand-overs with SIGTERM behind a load balancer.
//
//   npm run try:restart -- [--rounds 20]
//
// On a busy machine, a client may pause for longer than --drain-idle-ms, and then loses its connection. In this case, set
// DRAIN_IDLE_MS=3000.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../test/kit/free-ports.ts';
import { commandExists } from './bench/cores.ts';
import { readArguments } from './harness/arguments.ts';
import { post } from './harness/post.ts';
import { isOk } from './harness/process.ts';
import { type Client, ghz, grpcJs, h2load, nodeAgent, type Tally, wrk } from './restart-clients.ts';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const { rounds } = readArguments({ rounds: 20 });
const missing = ['haproxy', 'nginx'].filter((command) => !commandExists(command, '-v'));
if (missing.length > 0) {
  console.error(`not installed: ${missing.join(', ')}`);
  process.exit(1);
}
await using cleanups = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), 'restart-'));
cleanups.defer(() => rm(folder, { recursive: true }));
const database = ['--database', `sqlite:${join(folder, 'users.db')}`];

const keptHttp: readonly Client[] = [
  nodeAgent('node:http, 4 kept connections', { connections: 4, pauseMs: 0, keepAlive: true }),
  nodeAgent('node:http, 4 kept, 50 ms between requests', { connections: 4, pauseMs: 50, keepAlive: true }),
  nodeAgent('node:http, a connection a request', { connections: 2, pauseMs: 5, keepAlive: false }),
  wrk,
];

interface Running {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly http: string;
  readonly grpc: string;
  /** Resolves with the next line of this event, and rejects after a minute. */
  next(event: string): Promise<unknown>;
}

async function start(args: readonly string[]): Promise<Running> {
  const child = spawn(process.execPath, [main, ...database, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = endLater(child);
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => {
    // Ignore request events, which are most of the events.
    if (line.includes('"event":"request"')) return;
    const event = JSON.parse(line);
    lines.emit(`event ${event.event}`, event);
  });
  const next = async (event: string) =>
    (await once(lines, `event ${event}`, { signal: AbortSignal.timeout(60_000) }))[0];
  const { http, grpc } = await next('listening');
  return { child, exited, http, grpc, next };
}

/** Ends a process at the latest when the script ends, also after an error. */
function endLater(child: ChildProcess): Promise<unknown[]> {
  const exited = once(child, 'exit');
  cleanups.defer(async () => {
    child.kill('SIGTERM');
    await exited;
  });
  return exited;
}

async function end({ child, exited }: Running): Promise<void> {
  child.kill('SIGTERM');
  const [code, signal] = await exited;
  if (code !== 0) throw new Error(`the service ended with ${code ?? signal}`);
}

/** Runs `work` under the load of the clients. Prints their results and counts failures. */
async function underLoad(
  title: string,
  target: { http: string; grpc: string },
  clients: readonly Client[],
  work: () => Promise<void>,
): Promise<number> {
  const done = new AbortController();
  const tallies = clients.map((client) => client({ ...target, signal: done.signal }));
  // Wait until the clients send requests.
  await sleep(500);
  const startedAt = performance.now();
  await work();
  const seconds = (performance.now() - startedAt) / 1000;
  done.abort();
  console.log(`\n${title}: ${rounds} in ${seconds.toFixed(0)} s`);
  let failed = 0;
  // One after another, so that a client that does not end is the one whose line is missing.
  for (const pending of tallies) {
    const tally = await pending;
    console.log(describe(tally));
    for (const count of tally.failures.values()) failed += count;
  }
  return failed;
}

function describe({ client, requests, failures, note }: Tally): string {
  const failed = [...failures.values()].reduce((sum, count) => sum + count, 0);
  const what = [...failures].map(([text, count]) => `${count} x ${text}`).join(', ');
  return `  ${client.padEnd(44)} ${String(requests).padStart(8)} requests, ${failed} failed  ${what}${note}`;
}

async function rolling(): Promise<number> {
  const service = await start(['--workers', '2', '--port', '0', '--grpc-port', '0']);
  await post(`${service.http}/users`, { name: 'Ada' });
  const failed = await underLoad(
    'rolling restarts by SIGHUP',
    service,
    [...keptHttp, h2load, grpcJs, ghz],
    async () => {
      for (let round = 0; round < rounds; round += 1) {
        const reloaded = service.next('reloaded');
        service.child.kill('SIGHUP');
        await reloaded;
      }
    },
  );
  await end(service);
  return failed;
}

interface Ports {
  readonly http: number;
  readonly grpc: number;
  readonly copies: readonly { http: number; grpc: number }[];
}

interface Balancer {
  readonly command: string;
  readonly args: (file: string) => string[];
  readonly config: (ports: Ports) => string;
  /** Whether it sends requests to every copy. */
  readonly seesAll: (http: string) => Promise<boolean>;
}

const haproxy: Balancer = {
  command: 'haproxy',
  async seesAll(http) {
    const rows = (await (await fetch(`${http}/balancer;csv`)).text())
      .split('\n')
      .map((row) => row.split(','));
    const status = rows[0]?.indexOf('status') ?? -1;
    const copies = rows.filter(([, name]) => name?.startsWith('copy'));
    return copies.length > 0 && copies.every((row) => row[status] === 'UP');
  },
  args: (file) => ['-db', '-q', '-f', file],
  config: ({ http, grpc, copies }) => `
global
  maxconn 1000
defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
  # Without this, the timeout of a check is the pause between two checks.
  timeout check 3s
  option redispatch
  option httpchk GET /health/ready
  # A single failed check on a busy machine does not remove a copy. A drain is detected long before it ends.
  default-server inter 500ms fastinter 100ms fall 3 rise 1
listen http
  bind 127.0.0.1:${http}
  stats enable
  stats uri /balancer
${copies.map((copy, n) => `  server copy${n} 127.0.0.1:${copy.http} check`).join('\n')}
listen grpc
  # A health watch sends nothing while the health stays the same.
  timeout client 1h
  timeout server 1h
  # A copy closes each connection at its age. Each call only reads, so it may be sent again.
  retry-on all-retryable-errors
  bind 127.0.0.1:${grpc} proto h2
${copies.map((copy, n) => `  server copy${n} 127.0.0.1:${copy.grpc} proto h2 track http/copy${n}`).join('\n')}
`,
};

const nginx: Balancer = {
  command: 'nginx',
  seesAll: async () => true,
  args: (file) => ['-e', 'stderr', '-p', folder, '-c', file],
  // This load balancer has no health checks. A request that one copy rejects is sent to the other at once.
  config: ({ http, copies }) => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log /dev/null;
events { worker_connections 1000; }
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
  upstream copies {
    ${copies.map((copy) => `server 127.0.0.1:${copy.http} max_fails=0;`).join(' ')}
    keepalive 16;
  }
  server {
    listen 127.0.0.1:${http};
    location / {
      proxy_pass http://copies;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffer_size 16k;
      proxy_buffers 4 16k;
    }
  }
}
`,
};

async function handOvers(
  { command, args, config, seesAll }: Balancer,
  clients: readonly Client[],
): Promise<number> {
  const [a = 0, b = 0, c = 0, d = 0, http = 0, grpc = 0] = await freePorts(6);
  const copies = [
    { http: a, grpc: b },
    { http: c, grpc: d },
  ];
  const launch = (copy: { http: number; grpc: number }) =>
    start([
      ...['--port', `${copy.http}`, '--grpc-port', `${copy.grpc}`, '--drain-delay-ms', '1000'],
      // So low that many connections reach their age during the calls.
      ...['--grpc-max-age-ms', '1000', '--grpc-max-age-grace-ms', '5000'],
      // By default, nginx sends the name of its upstream as Host.
      ...['--allowed-hosts', '*'],
    ]);
  const running = await Promise.all(copies.map(launch));
  await post(`http://127.0.0.1:${a}/users`, { name: 'Ada' });
  const file = join(folder, `${command}.conf`);
  await writeFile(file, config({ http, grpc, copies }));
  const balancer = spawn(command, args(file), { stdio: 'inherit' });
  const exited = endLater(balancer);
  const target = { http: `http://127.0.0.1:${http}`, grpc: `127.0.0.1:${grpc}` };
  for (let tries = 0; !(await isOk(`${target.http}/users/1`)) && tries < 50; tries += 1) await sleep(100);
  const failed = await underLoad(`hand-overs by SIGTERM behind ${command}`, target, clients, async () => {
    for (let round = 0; round < rounds; round += 1) {
      const index = round % 2;
      const [old, copy] = [running[index], copies[index]];
      if (old === undefined || copy === undefined) return;
      await end(old);
      running[index] = await launch(copy);
      // A deployment waits until the load balancer uses the new copy.
      while (!(await seesAll(target.http))) await sleep(50);
    }
  });
  balancer.kill('SIGTERM');
  await exited;
  await Promise.all(running.map(end));
  return failed;
}

let failed = await rolling();
failed += await handOvers(haproxy, [...keptHttp, grpcJs]);
failed += await handOvers(nginx, keptHttp);
console.log(`\n${failed} requests failed`);
process.exitCode = failed === 0 ? 0 : 1;
