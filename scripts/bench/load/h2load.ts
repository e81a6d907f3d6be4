import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from './run.ts';
import type { Load, LoadResult } from './types.ts';

/** HTTP/2 in the clear; only the first of the requests, since h2load has one body for all. */
export async function loadByH2load(
  url: string,
  load: Load & { readonly streams: number },
  seconds: number,
): Promise<LoadResult> {
  const [request] = load.requests;
  if (request === undefined) throw new Error('a load needs a request');
  const folder = mkdtempSync(join(tmpdir(), 'h2load-'));
  try {
    const body = join(folder, 'body');
    writeFileSync(body, request.body ?? '');
    const headers = Object.entries(request.headers ?? {}).flatMap(([name, value]) => [
      '-H',
      `${name}: ${value}`,
    ]);
    const output = await run('h2load', [
      ...['-c', String(load.connections), '-m', String(load.streams), '-D', String(seconds)],
      ...headers,
      ...(request.body === undefined ? [] : ['-d', body]),
      `${url}${request.path}`,
    ]);
    return { generator: 'h2load', seconds, ...parse(output) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function parse(output: string) {
  const counts = /(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/.exec(output);
  const traffic = /^traffic: .*?\((\d+)\) total/m.exec(output);
  if (counts === null || traffic === null) throw new Error(`h2load gave no result:\n${output}`);
  const [, done, succeeded] = counts;
  return { requests: Number(done), errors: Number(done) - Number(succeeded), bytes: Number(traffic[1]) };
}
