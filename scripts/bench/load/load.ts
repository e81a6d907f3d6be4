import { commandExists } from '../cores.ts';
import { loadByAutocannon } from './autocannon.ts';
import { loadByH2load } from './h2load.ts';
import type { Load, LoadResult } from './types.ts';
import { loadByWrk } from './wrk.ts';

const hasWrk = commandExists('wrk');
const hasH2load = commandExists('h2load');

/** Sends load for so many seconds; over HTTP/1.1 by wrk or autocannon, over HTTP/2 by h2load. */
export async function sendLoad(url: string, load: Load, seconds: number): Promise<LoadResult> {
  if (load.streams !== undefined) {
    if (!hasH2load) throw new Error('h2load (of nghttp2) is not installed');
    return await loadByH2load(url, { ...load, streams: load.streams }, seconds);
  }
  return await (hasWrk ? loadByWrk : loadByAutocannon)(url, load, seconds);
}
