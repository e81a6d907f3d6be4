import { commandExists } from '../cores.ts';
import { loadByAutocannon } from './autocannon.ts';
import { loadByH2load } from './h2load.ts';
import { loadByWrk } from './wrk.ts';

export interface LoadRequest {
  readonly method?: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface Load {
  /** Sent in turn; more than one, so that nothing is answered from where the last one was. */
  readonly requests: readonly LoadRequest[];
  readonly connections: number;
  /** HTTP/2 with so many requests at once on each connection; absent: HTTP/1.1. */
  readonly streams?: number;
}

/** What a load generator saw. */
export interface LoadResult {
  readonly generator: string;
  readonly requests: number;
  readonly seconds: number;
  /** Answers other than 2xx, and connections that broke. */
  readonly errors: number;
  readonly bytes: number;
  /** Absent where the generator does not tell. */
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

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
