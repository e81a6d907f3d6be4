import { once } from 'node:events';
import { createServer } from 'node:net';
import { type Config, optionRows, optionsOf } from '../config.ts';
import { type Addresses, createService, type Service } from '../service.ts';
import { openPort, StartError } from '../start-error.ts';
import type { Observe } from '../telemetry/events.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { renderMetrics } from '../telemetry/metrics.ts';
import type { WorkerLink } from '../workers/worker-link.ts';
import { type Command, type CommandContext, describeError, onStop } from './command-line.ts';
import {
  type Files,
  optionsHelp,
  type ParsedConfig,
  parseConfig,
  printConfig,
  readFiles,
} from './settings.ts';

const help = `users-service: users and posts over HTTP and gRPC

usage: users-service [serve] [options]
       users-service copy --from URL --to URL
       users-service export [FILE] [--database URL]
       users-service import [FILE] [--database URL]
       users-service backup FILE [--database URL]
       users-service doctor [options]
       users-service help [COMMAND] | version | --print-config [options]

Flags win over the environment, the environment over the defaults [in brackets].

`;

// A terminal signals all its processes, and npm passes the signal on to its child again: that is one signal.
const sameSignalMs = 1_000;
// Extra time for a worker after its own deadlines, before it counts as stuck.
const workerSlackMs = 5_000;

interface Run {
  readonly context: CommandContext;
  readonly parsed: ParsedConfig;
  readonly log: Log;
}

/** Runs the service until a signal stops it. */
export const serve: Command = {
  help: help + optionsHelp(),
  flags: optionRows.map(([flag]) => flag),
  switches: ['print-config'],
  async run(context, { flags }) {
    const { env, stdout } = context;
    const parsed = parseConfig(flags, env);
    if (flags['print-config'] !== undefined) {
      await readFiles(parsed);
      stdout.write(printConfig(parsed));
      return 0;
    }
    const log = createLog(logFormat(parsed, stdout.isTTY === true), stdout);
    context.onCrash((cause) => {
      observeFailure(log.observe, cause);
      log.flush();
    });
    try {
      return await run({ context, parsed, log });
    } catch (error) {
      throw error instanceof StartError ? withFlag(error, parsed) : error;
    } finally {
      await log.end();
    }
  },
};

/** The error with the flag or variable that the user wrote, instead of the library's option. */
function withFlag(error: StartError, { settings }: ParsedConfig): Error {
  const [flag] = optionRows.find(([, { path }]) => path === error.option) ?? [];
  if (flag === undefined) return error;
  // The message about a port needs no cause.
  const text = flag === 'database' ? describeError(error) : error.message;
  return new Error(`${settings[flag].label}: ${text}`);
}

async function run(run: Run): Promise<number> {
  const { context, parsed } = run;
  const { config } = parsed;
  const isPool = config.workers > 1;
  const worker = isPool ? (await import('../workers/worker-link.ts')).workerLink(context.env) : undefined;
  try {
    const files = await readFiles(parsed);
    if (worker !== undefined) return await runService(run, files, worker);
    await checkPorts(config);
    return await (isPool ? runWorkers(run) : runService(run, files));
  } finally {
    // The connection to its primary would keep a worker alive that failed to start.
    worker?.close();
  }
}

/** Fails when an address cannot be opened, before a database is made for nothing. */
async function checkPorts({ host, port, 'grpc-port': grpcPort }: Config): Promise<void> {
  await openPort('port', host, port, openBriefly);
  if (grpcPort !== false) await openPort('grpcPort', host, grpcPort, openBriefly);
}

/** Opens a port and closes it again. */
export async function openBriefly(host: string, port: number): Promise<number> {
  await using server = createServer().listen({ host, port, exclusive: true });
  await once(server, 'listening');
  return port;
}

async function runWorkers({ context, parsed: { config }, log }: Run): Promise<number> {
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
  context.onSignal('SIGHUP', () => signals.isServing && restart());
  try {
    const addresses = await pool.start();
    signals.isServing = true;
    log.observe({ type: 'listening', ...addresses });
    announce(context, config, addresses);
  } catch (error) {
    // A worker has printed what is wrong.
    if (error instanceof Error && error.name === 'WorkerError') return 1;
    throw error;
  }
  await signals.stopped;
  log.observe({ type: 'draining' });
  await pool.stop();
  log.observe({ type: 'closed' });
  return 0;
}

/** Serves in this process, the only one or a worker. */
async function runService({ context, parsed, log }: Run, files: Files, worker?: WorkerLink): Promise<number> {
  const { config } = parsed;
  const signals = onStopSignals(context);
  const service = createService({
    ...optionsOf(config),
    ...files,
    ...(worker && {
      port: worker.port,
      grpcPort: worker.grpcPort,
      renderMetrics: async () => renderMetrics(await worker.gatherMetrics()),
    }),
    observe: worker === undefined ? log.observe : withoutLife(log.observe),
  });
  worker?.serve(signals.stop, () => service.counters());
  context.onSignal('SIGHUP', () => signals.isServing && reloadFiles(service, parsed, log.observe));
  const addresses = await service.listen();
  signals.isServing = true;
  if (worker === undefined) announce(context, config, addresses);
  else worker.ready(addresses);
  await signals.stopped;
  await service.close({ timeoutMs: config['drain-timeout-ms'] });
  return 0;
}

/** For a worker: its primary reports the life of the service. */
function withoutLife(observe: Observe): Observe {
  return (event) => {
    if (event.type !== 'listening' && event.type !== 'draining' && event.type !== 'closed') observe(event);
  };
}

/**
 * A signal stops the service in order. It ends the process at once before anything is served, and when an
 * earlier signal has not ended it.
 */
function onStopSignals(context: CommandContext) {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const signals = { stopped, stop, isServing: false };
  let firstAt: number | undefined;
  onStop(context, (code) => {
    firstAt ??= performance.now();
    if (!signals.isServing || performance.now() - firstAt > sameSignalMs) context.exit(code);
    stop();
  });
  return signals;
}

function announce({ stdout }: CommandContext, config: Config, { http, grpc }: Addresses): void {
  // Without a log, the addresses are still printed: with port 0 there is no other way to find out.
  if (config.log === 'off') stdout.write(`listening on ${http}${grpc === undefined ? '' : ` and ${grpc}`}\n`);
}

async function reloadFiles(service: Service, parsed: ParsedConfig, observe: Observe): Promise<void> {
  try {
    const { tls, apiKeys } = await readFiles(parsed);
    if (tls === undefined && parsed.config['api-keys-file'] === undefined) return;
    if (tls !== undefined) service.setTls(tls);
    service.setApiKeys(apiKeys ?? []);
    observe({ type: 'reloaded' });
  } catch (cause) {
    observeFailure(observe, cause);
  }
}

function observeFailure(observe: Observe, cause: unknown): void {
  observe({ type: 'failure', where: 'process', cause });
}

function logFormat({ config, settings }: ParsedConfig, isTerminal: boolean): Config['log'] {
  return settings.log.source === 'default' && isTerminal ? 'pretty' : config.log;
}
