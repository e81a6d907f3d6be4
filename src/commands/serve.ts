import { readFile } from 'node:fs/promises';
import {
  type Config,
  ConfigError,
  helpText,
  type ParsedConfig,
  parseConfig,
  printConfig,
} from '../config.ts';
import { type Addresses, createService, type Service } from '../service.ts';
import { StartError, type StartOption } from '../start-error.ts';
import type { Observe } from '../telemetry/events.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { renderMetrics } from '../telemetry/metrics.ts';
import type { WorkerLink } from '../workers/worker-link.ts';
import { checkFiles } from './check-files.ts';
import type { CommandContext } from './command.ts';
import { readTls, serviceOptions } from './service-options.ts';

const usage = `users-service: users and posts over HTTP and gRPC

usage: users-service [serve] [options]
       users-service copy --from URL --to URL
       users-service export [FILE] [--database URL]
       users-service import [FILE] [--database URL]
       users-service backup FILE [--database URL]
       users-service [COMMAND] --help | --version | --print-config [options]

Flags win over the environment, the environment over the defaults [in brackets].

`;

const flags: Readonly<Record<StartOption, string>> = {
  database: '--database',
  publicDir: '--public',
  host: '--host',
  port: '--port',
  grpcPort: '--grpc-port',
  tls: '--tls-cert and --tls-key',
};

const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;
// A terminal signals all its processes, and npm passes the signal on to its child again: twice is once.
const sameSignalMs = 1_000;
// What a worker needs beyond its own deadlines, before it counts as stuck.
const workerSlackMs = 5_000;

/** Runs the service until it is told to stop. */
export async function serve(context: CommandContext): Promise<number> {
  const { args, env, stdout, stderr } = context;
  if (args.includes('--help') || args.includes('-h')) {
    stdout.write(`${usage}${helpText()}\n`);
    return 0;
  }
  if (args.includes('--version')) {
    stdout.write(`${await version()}\n`);
    return 0;
  }
  let parsed: ParsedConfig;
  try {
    parsed = parseConfig(
      args.filter((arg) => arg !== '--print-config'),
      env,
    );
    if (args.includes('--print-config')) {
      stdout.write(`${printConfig(parsed)}\n`);
      return 0;
    }
  } catch (error) {
    return tellProblems(error, stderr);
  }
  const log = createLog(logFormat(parsed, stdout.isTTY === true), stdout);
  context.onCrash((cause) => {
    observeFailure(log.observe, cause);
    log.flush();
  });
  try {
    await run(context, parsed, log);
    return 0;
  } catch (error) {
    if (error instanceof ConfigError) return tellProblems(error, stderr);
    // A worker has said what is wrong.
    if (!(error instanceof Error && error.name === 'WorkerError')) {
      stderr.write(`users-service: ${explain(error)}\n`);
    }
    return 1;
  } finally {
    await log.end();
  }
}

function tellProblems(error: unknown, stderr: CommandContext['stderr']): number {
  if (!(error instanceof ConfigError)) throw error;
  for (const problem of error.problems) stderr.write(`users-service: ${problem}\n`);
  return 2;
}

async function run(context: CommandContext, parsed: ParsedConfig, log: Log): Promise<void> {
  const { config } = parsed;
  if (config.workers === 1) {
    await checkFiles(parsed);
    return await runService(context, config, log);
  }
  // Loaded only for those who have several.
  const { workerLink } = await import('../workers/worker-link.ts');
  const worker = workerLink(context.env);
  if (worker !== undefined) return await runService(context, config, log, worker);
  // Not in a worker, whose end has to be told to its primary.
  await checkFiles(parsed);
  const { WorkerPool } = await import('../workers/worker-pool.ts');

  const signals = onStopSignals(context);
  const pool = new WorkerPool({
    count: config.workers,
    port: config.port,
    grpcPort: config['grpc-port'],
    observe: log.observe,
    stopTimeoutMs: config['drain-delay-ms'] + config['drain-timeout-ms'] + workerSlackMs,
  });
  const restart = () => pool.restart().catch((cause) => observeFailure(log.observe, cause));
  context.onSignal('SIGHUP', () => signals.isServing() && restart());
  const addresses = await pool.start();
  signals.serving();
  log.observe({ type: 'listening', ...addresses });
  announce(context, config, addresses);
  await signals.stopped;
  log.observe({ type: 'draining' });
  await pool.stop();
  log.observe({ type: 'closed' });
}

/** A process that serves: the only one, or a worker, whose life is the primary's to tell. */
async function runService(
  context: CommandContext,
  config: Config,
  log: Log,
  worker?: WorkerLink,
): Promise<void> {
  const signals = onStopSignals(context);
  worker?.onStop(signals.stop);
  const observe: Observe = (event) => {
    // Whoever reads that it listens may signal at once.
    if (event.type === 'listening') signals.serving();
    const told = event.type === 'listening' || event.type === 'draining' || event.type === 'closed';
    if (worker === undefined || !told) log.observe(event);
  };
  const shared = worker && {
    port: worker.port,
    grpcPort: worker.grpcPort,
    renderMetrics: async () => renderMetrics(await worker.gatherMetrics()),
  };
  // All of it inside, or a worker that cannot even begin would stay, connected to its primary.
  try {
    const service = createService({ ...(await serviceOptions(config)), ...shared, observe });
    context.onSignal('SIGHUP', () => signals.isServing() && reloadTls(service, config, observe));
    const addresses = await service.listen();
    if (worker === undefined) announce(context, config, addresses);
    else worker.ready(addresses, () => service.counters());
    await signals.stopped;
    await service.close({ timeoutMs: config['drain-timeout-ms'] });
  } finally {
    worker?.close();
  }
}

interface StopSignals {
  /** From now on there is something to stop in order, or to reload. */
  serving(): void;
  isServing(): boolean;
  readonly stopped: Promise<void>;
  readonly stop: () => void;
}

/**
 * A signal stops in order. It ends the process at once as long as nothing is served, or when an earlier
 * one has not done it.
 */
function onStopSignals({ onSignal, exit }: CommandContext): StopSignals {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  let isServing = false;
  let firstAt: number | undefined;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    onSignal(signal, () => {
      firstAt ??= performance.now();
      if (!isServing || performance.now() - firstAt > sameSignalMs) exit(exitCodes[signal]);
      stop();
    });
  }
  const serving = (): void => {
    isServing = true;
  };
  return { serving, isServing: () => isServing, stopped, stop };
}

function announce({ stdout }: CommandContext, config: Config, { http, grpc }: Addresses): void {
  // Silence is asked for, but a port that was chosen freely has to be told.
  if (config.log === 'off') stdout.write(`listening on ${http}${grpc === undefined ? '' : ` and ${grpc}`}\n`);
}

async function reloadTls(service: Service, config: Config, observe: Observe): Promise<void> {
  try {
    const { tls } = await readTls(config);
    if (tls === undefined) return;
    service.setTls(tls);
    observe({ type: 'reloaded' });
  } catch (cause) {
    observeFailure(observe, cause);
  }
}

function observeFailure(observe: Observe, cause: unknown): void {
  observe({ type: 'failure', where: 'process', cause });
}

function logFormat({ config, origins }: ParsedConfig, isTerminal: boolean): Config['log'] {
  return origins.log.source === 'default' && isTerminal ? 'pretty' : config.log;
}

function explain(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return error instanceof StartError ? `${flags[error.option]}: ${text}` : text;
}

async function version(): Promise<string> {
  const file = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
  return JSON.parse(file).version;
}
