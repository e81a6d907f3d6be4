import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { type Config, optionRows, options, optionsOf } from '../config.ts';
import { coalesced } from '../domain/promises.ts';
import { StartError, tryPort } from '../service/ports.ts';
import { createService } from '../service/service.ts';
import type { Addresses, Observe } from '../telemetry/events.ts';
import { createLog, type Log } from '../telemetry/log.ts';
import { eventLoopMetrics, renderMetrics, type Usage, usageMetrics } from '../telemetry/metrics.ts';
import type { WorkerLink } from '../workers/worker-link.ts';
import { type Command, type CommandContext, onStop, packageVersion, print } from './command-line.ts';
import { describeError, isInvalid, UsageError } from './errors.ts';
import { type Files, readFiles } from './files.ts';
import { optionsHelp, type ParsedConfig, parseConfig, printConfig } from './settings.ts';

const help = `users-service: users and posts over HTTP and gRPC

usage: users-service [serve] [options]
       users-service copy --from URL --to URL
       users-service export [FILE] [--database URL]
       users-service import [FILE] [--database URL] [--partial]
       users-service backup FILE [--database URL]
       users-service changes --url URL [options]
       users-service verify [--database URL]
       users-service doctor [options]
       users-service help [COMMAND] | version | --print-config [options]

`;

// After its drain, a worker closes its store, which with PostgreSQL can take this long. Then the worker is killed.
export const closeSlackMs = 15_000;
const lifeEvents = ['listening', 'draining', 'closed'];

export const serve: Command = {
  help: help + optionsHelp(),
  flags: optionRows.map(([flag]) => flag),
  switches: ['print-config'],
  async run(context, { flags }) {
    const { env, stdout } = context;
    const parsed = parseConfig(flags, env);
    const { config, settings } = parsed;
    if (flags['print-config'] !== undefined) {
      await readFiles(parsed);
      await print(stdout, printConfig(parsed));
      return 0;
    }
    const isPretty = settings.log.source === 'default' && stdout.isTTY === true;
    const log = createLog(isPretty ? 'pretty' : config.log, stdout, packageVersion);
    context.onCrash((cause) => {
      log.observe({ type: 'failure', where: 'process', cause });
      log.flush();
    });
    const worker = config.workers > 1 ? (await import('../workers/worker-link.ts')).workerLink() : undefined;
    try {
      await runUntilStopped(context, parsed, log, worker);
    } catch (error) {
      throw error instanceof StartError ? withFlag(error, parsed) : error;
    } finally {
      // Otherwise its connection to the primary would keep a worker alive that has failed to start.
      await worker?.close();
      await log.end();
    }
    // If the reader of the log has stopped reading, its pipe would keep the process alive.
    if (stdout.writableLength > 0) context.exit(0);
    return 0;
  },
};

/** What this process runs: the workers as their primary, or a service, alone or as a worker. */
interface Runner {
  /** Resolves when it listens. */
  start(): Promise<Addresses>;
  stop(): Promise<void>;
  /** Uses the certificate and the keys from now on. The workers read them again. */
  reload(files: Files): Promise<void> | void;
  /** Reports a failure of this process, which the metrics count too. */
  reportFailure(cause: unknown): void;
  /** Ends the workers at once. */
  kill?(): void;
}

/** Resolves after a signal has stopped the service in order. */
async function runUntilStopped(
  context: CommandContext,
  parsed: ParsedConfig,
  log: Log,
  worker: WorkerLink | undefined,
): Promise<void> {
  const { config } = parsed;
  const { promise: serving, resolve: begin } = Promise.withResolvers<void>();
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  // Loading the module only here makes the start faster.
  const examine = async (when: 'start' | 'reload', files: Files): Promise<void> =>
    (await import('./examine.ts')).reportProblems(when, parsed, files, log.observe);
  // Signals that arrive during a reload share the next one, which reads the files again.
  const reload = coalesced(async () => {
    try {
      const changed = await readFiles(parsed, true);
      await runner.reload(changed);
      if (worker === undefined) await examine('reload', changed);
    } catch (cause) {
      runner.reportFailure(cause);
    }
  });
  // During the start, the files may have been read already.
  context.onSignal('SIGHUP', () => serving.then(reload));
  const files = await readFiles(parsed);
  if (worker === undefined) await checkPorts(config);
  const runner: Runner =
    config.workers > 1 && worker === undefined
      ? await createPool(config, log.observe, context.usage)
      : singleService(parsed, files, log, stop, context.usage, worker);
  // While serving, a signal stops the service in order. Before that, it ends all processes at once.
  let end = (code: number) => {
    runner.kill?.();
    context.exit(code);
  };
  onStop(context, (code) => end(code), ['SIGINT', 'SIGTERM']);
  const addresses = await runner.start();
  end = () => stop();
  begin();
  keepNewObjectsYoung();
  if (worker !== undefined) worker.ready(addresses);
  // Without a log, still print the addresses: with port 0 there is no other way to learn them.
  else if (config.log === 'off')
    context.stdout.write(`listening on ${Object.values(addresses).join(' and ')}\n`);
  // Without reading the files again: the second opening of a named pipe could wait for ever, and delay a stop.
  const reported =
    worker === undefined && examine('start', files).catch((cause) => runner.reportFailure(cause));
  await stopped;
  await Promise.all([reported, runner.stop()]);
}

/**
 * Makes V8 allocate all new objects in the young generation. The first gRPC calls all survive a collection, so V8 would
 * allocate the objects of later calls in the old generation, where they stay until the next full collection. This runs
 * after the start, and saves the compiled modules first, because the flag invalidates the code cache of Node.js.
 */
function keepNewObjectsYoung(): void {
  flushCompileCache();
  setFlagsFromString('--no-allocation-site-pretenuring');
}

/** The error with the flag or variable that the user wrote, instead of the library's option. */
function withFlag(error: StartError, { settings }: ParsedConfig): Error {
  const [flag] = optionRows.find(([, { path }]) => path === error.option) ?? [];
  if (flag === undefined) return error;
  // Other messages already contain their cause.
  const text = flag === 'database' ? describeError(error) : error.message.replace(/^readDatabase /, '');
  const Kind = isInvalid(error.cause) ? UsageError : Error;
  return new Kind(`${settings[flag].label}: ${text}`);
}

/** Fails when an address cannot be opened, before a database is created. */
async function checkPorts({ host, port, 'grpc-port': grpcPort }: Config): Promise<void> {
  await tryPort('port', host, port);
  if (grpcPort !== false) await tryPort('grpcPort', host, grpcPort);
}

async function createPool(config: Config, observe: Observe, usage: () => Usage): Promise<Runner> {
  const { WorkerPool } = await import('../workers/worker-pool.ts');
  const stopMs = config['drain-delay-ms'] + config['drain-timeout-ms'] + closeSlackMs;
  // A longer timer would end at once.
  const stopTimeoutMs = Math.min(stopMs, options['drain-timeout-ms'].range[1]);
  const metrics = () => usageMetrics(usage());
  return new WorkerPool({ count: config.workers, observe, metrics, stopTimeoutMs });
}

/** The service in this process, which is the only process or a worker. */
function singleService(
  parsed: ParsedConfig,
  files: Files,
  { observe, lost }: Log,
  stop: () => void,
  usage: () => Usage,
  worker: WorkerLink | undefined,
): Runner {
  const { config } = parsed;
  const service = createService({
    ...optionsOf(config),
    ...files,
    renderMetrics: worker?.renderMetrics ?? (async () => renderMetrics(counters())),
    observe(event) {
      // The primary reports the start and the end of the service for its workers.
      if (worker === undefined || !lifeEvents.includes(event.type)) observe(event);
    },
  });
  const counters = () => ({
    ...service.counters(),
    users_service_log_lines_dropped_total: lost(),
    ...eventLoopMetrics(),
    ...usageMetrics(usage()),
  });
  worker?.serve(stop, counters);
  return {
    start: () => service.listen(),
    stop: () => service.close({ timeoutMs: config['drain-timeout-ms'], turn: worker?.turn }),
    reload({ tls, apiKeys }) {
      if (tls === undefined && config['api-keys-file'] === undefined) {
        observe({ type: 'warning', message: 'SIGHUP: there is no certificate and no file of keys' });
        return;
      }
      if (tls !== undefined) service.setTls(tls);
      service.setApiKeys(apiKeys);
      observe({ type: 'reloaded' });
    },
    reportFailure: (cause) => service.reportFailure(cause),
  };
}
