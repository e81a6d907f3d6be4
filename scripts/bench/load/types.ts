export interface LoadRequest {
  readonly method?: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface Load {
  /** Sent in turn; more than one, so that a cache of the last response is of no use. */
  readonly requests: readonly LoadRequest[];
  readonly connections: number;
  /** Requests at once on each HTTP/2 connection; absent: HTTP/1.1. */
  readonly streams?: number;
}

/** What a load generator measured. */
export interface LoadResult {
  readonly generator: string;
  readonly requests: number;
  readonly seconds: number;
  /** Responses other than 2xx, and broken connections. */
  readonly errors: number;
  readonly bytes: number;
  /** Absent if the generator does not report it. */
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}
