import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pin } from './cores.ts';
import type { Subject } from './subject.ts';

export interface Load {
  readonly connections: number;
  /** The paths to request in turn. Several paths prevent gains from caching the last response. */
  readonly paths: readonly string[];
  /** If present, the requests are POSTs with this body. */
  readonly body?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  /** Concurrent requests on each HTTP/2 connection to the gRPC port. If absent, HTTP/1.1 is used. */
  readonly streams?: number;
  /** The length of each response body, if all are equal. With gRPC, an error has no body but the status 200. */
  readonly replyBytes?: number;
}

/**
 * Sends this many requests with h2load on the core of the load, as fast as the server responds. Resolves to
 * the elapsed seconds. The number is fixed instead of the time, so that no request is running at the end.
 */
export async function sendLoad({ http, grpc }: Subject, load: Load, requests: number): Promise<number> {
  const { connections, paths, body, headers = {}, streams, replyBytes } = load;
  const url = streams === undefined ? http : `http://${grpc}`;
  const folder = mkdtempSync(join(tmpdir(), 'h2load-'));
  try {
    const [uris, data] = [join(folder, 'uris'), join(folder, 'data')];
    writeFileSync(uris, paths.map((path) => `${url}${path}\n`).join(''));
    if (body !== undefined) writeFileSync(data, body);
    const { command, args } = pin('load', 'h2load', [
      ...['-n', String(requests), '-c', String(connections), '-i', uris],
      ...(streams === undefined ? ['--h1'] : ['-m', String(streams)]),
      ...(body === undefined ? [] : ['-d', data]),
      ...Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ]);
    const { stdout } = await promisify(execFile)(command, args);
    const [, time, unit] = /^finished in ([\d.]+)(us|ms|s|m)/m.exec(stdout) ?? [];
    const succeeded = /(\d+) succeeded/.exec(stdout)?.[1];
    const received = Number(/\((\d+)\) data/.exec(stdout)?.[1]);
    const isWhole = replyBytes === undefined || received === replyBytes * requests;
    const scale = { us: 1e-6, ms: 1e-3, s: 1, m: 60 }[String(unit)];
    if (scale === undefined || Number(succeeded) !== requests || !isWhole)
      throw new Error(`h2load failed:\n${stdout}`);
    return Number(time) * scale;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
