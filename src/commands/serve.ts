import { readFile } from 'node:fs/promises';
import {
  type Config,
  ConfigError,
  helpText,
  type ParsedConfig,
  parseConfig,
  printConfig,
} from '../config.ts';
import { createLog, type LogFormat } from '../log.ts';
import { createService, type ServiceOptions } from '../service.ts';
import type { CommandContext } from './command.ts';

const usage = `users-service: users and posts over HTTP and gRPC

usage: users-service [serve] [options]
       users-service copy --from URL --to URL
       users-service export [--database URL] > FILE
       users-service import [--database URL] < FILE
       users-service backup FILE [--database URL]

Flags win over the environment, the environment over the defaults [in brackets].

`;

/** Runs the service until it is told to stop. */
export async function serve(context: CommandContext): Promise<number> {
  const { args, env, stdout, stderr } = context;
  if (args.includes('--help')) {
    stdout.write(`${usage}${helpText()}\n  --print-config  what is in force, without secrets\n  --version\n`);
    return 0;
  }
  let parsed: ParsedConfig;
  try {
    parsed = parseConfig(
      args.filter((arg) => arg !== '--print-config'),
      env,
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) stderr.write(`users-service: ${problem}\n`);
    return 2;
  }
  if (args.includes('--print-config')) {
    stdout.write(`${printConfig(parsed)}\n`);
    return 0;
  }
  return await run(context, parsed);
}

async function run(context: CommandContext, { config, sources }: ParsedConfig): Promise<number> {
  const { stdout, stderr, onSignal } = context;
  const log = createLog(logFormat(config, sources, stdout.isTTY === true), stdout);
  const stopped = Promise.withResolvers<void>();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) onSignal(signal, () => stopped.resolve());
  try {
    const service = createService({ ...(await serviceOptions(config)), observe: log.observe });
    const { http, grpc } = await service.listen();
    // Silence is asked for, but a port that was chosen freely has to be told.
    if (config.log === 'off')
      stdout.write(`listening on ${http}${grpc === undefined ? '' : ` and ${grpc}`}\n`);
    await stopped.promise;
    await service.close({ timeoutMs: config['drain-timeout-ms'] });
    return 0;
  } catch (error) {
    stderr.write(`users-service: ${error instanceof Error ? error.message : error}\n`);
    return 1;
  } finally {
    log.flush();
  }
}

function logFormat(config: Config, sources: ParsedConfig['sources'], isTerminal: boolean): LogFormat {
  return sources['log'] === 'default' && isTerminal ? 'pretty' : config.log;
}

async function serviceOptions(config: Config): Promise<ServiceOptions> {
  const { 'tls-cert': certFile, 'tls-key': keyFile } = config;
  const tls = certFile === '' ? {} : { tls: { cert: await readPem(certFile), key: await readPem(keyFile) } };
  return {
    ...tls,
    host: config.host,
    port: config.port,
    grpcPort: config['grpc-port'],
    database: config.database,
    apiKeys: config['api-key'],
    auth: config.auth,
    cors: config.cors,
    requirePreconditions: config['require-preconditions'],
    drainDelayMs: config['drain-delay-ms'],
    ...(config.public !== '' && { publicDir: config.public }),
    limits: {
      maxBodyBytes: config['max-body-bytes'],
      maxHeaders: config['max-headers'],
      maxInFlight: config['max-in-flight'],
      writeTimeoutMs: config['write-timeout-ms'],
    },
    timeouts: {
      headersTimeoutMs: config['headers-timeout-ms'],
      requestTimeoutMs: config['request-timeout-ms'],
      keepAliveTimeoutMs: config['keep-alive-timeout-ms'],
    },
    grpcLimits: {
      maxConcurrentStreams: config['grpc-max-streams'],
      maxMessageBytes: config['grpc-max-message-bytes'],
      maxConnectionAgeMs: config['grpc-max-age-ms'],
      maxConnectionAgeGraceMs: config['grpc-max-age-grace-ms'],
      keepaliveTimeMs: config['grpc-keepalive-ms'],
      keepaliveTimeoutMs: config['grpc-keepalive-timeout-ms'],
    },
  };
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new Error(`cannot read ${file} (${reason})`, { cause: error });
  }
}
