import { fileURLToPath } from 'node:url';
import { run } from './run.ts';
import type { Load, LoadResult } from './types.ts';

/** For machines without wrk: slower by far, so that it may be what is measured. */
export async function loadByAutocannon(url: string, load: Load, seconds: number): Promise<LoadResult> {
  const worker = fileURLToPath(new URL('./autocannon-worker.ts', import.meta.url));
  const output = await run(process.execPath, [worker, JSON.stringify({ url, ...load, seconds })]);
  return { generator: 'autocannon', ...JSON.parse(output) };
}
