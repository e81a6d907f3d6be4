import { readFile } from 'node:fs/promises';
import type { Config } from '../config.ts';
import type { ServiceOptions } from '../service.ts';

/** What the flags mean for a service; reads the certificate. */
export async function serviceOptions(config: Config): Promise<ServiceOptions> {
  return {
    ...(await readTls(config)),
    host: config.host,
    port: config.port,
    grpcPort: config['grpc-port'],
    database: config.database,
    apiKeys: config['api-key'],
    auth: config.auth,
    cors: config.cors,
    requirePreconditions: config['require-preconditions'],
    maxConnections: config['max-connections'],
    drainDelayMs: config['drain-delay-ms'],
    drainIdleMs: config['drain-idle-ms'],
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

/** The certificate and key, when there are any. */
export async function readTls(config: Config): Promise<Pick<ServiceOptions, 'tls'>> {
  const { 'tls-cert': certFile, 'tls-key': keyFile } = config;
  if (certFile === '') return {};
  return { tls: { cert: await readPem('--tls-cert', certFile), key: await readPem('--tls-key', keyFile) } };
}

async function readPem(flag: string, file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new Error(`${flag}: cannot read ${file} (${reason})`, { cause: error });
  }
}
