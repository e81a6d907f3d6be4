import { createRequire } from 'node:module';

// The modules of the console that are tested without a page. They are JavaScript, so their types are
// declared here and checked where they are used.

export interface CurlModule {
  curlLine(request: SentRequest): string;
  grpcurlLine(request: SentRequest, port: number): string | undefined;
  shellQuote(text: string): string;
}

export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly keyed: boolean;
}

export interface Snapshot {
  readonly atMs: number;
  readonly startedAt: number | undefined;
  readonly requests: number;
  readonly clientErrors: number;
  readonly serverErrors: number;
  readonly buckets: ReadonlyMap<number, number>;
}

export interface Rates {
  readonly requests: number;
  readonly clientErrors: number;
  readonly serverErrors: number;
}

export interface Latencies {
  readonly timed: number;
  readonly p50: number | undefined;
  readonly p99: number | undefined;
}

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricsModule {
  parseMetrics(text: string): Sample[];
  takeSnapshot(samples: readonly Sample[], atMs: number): Snapshot;
  ratesBetween(before: Snapshot, after: Snapshot): Rates;
  latenciesBetween(before: Snapshot, after: Snapshot): Latencies;
}

export interface UserFields {
  readonly name: string;
  readonly role: string;
}

export interface ConsoleUserModule {
  userFields(fields: Partial<UserFields>): UserFields;
  toDraft(fields: UserFields): Partial<UserFields>;
  createPostsApi(): { firstPage(userId: number, shown: number): URL };
}

export interface MergeModule {
  mergeFields(
    base: UserFields,
    mine: UserFields,
    theirs: UserFields,
  ): {
    readonly fields: UserFields;
    readonly conflicts: readonly string[];
    readonly theirs: readonly string[];
  };
}

export interface LinkModule {
  parseLinks(header: string | null): Readonly<Partial<Record<string, string>>>;
}

export interface MemoryModule {
  readonly session: {
    read(name: string): string | undefined;
    write(name: string, value: string | undefined): void;
    names(): readonly string[];
  };
  readonly deletedUsers: ReadonlySet<number>;
  markDeleted(userId: number): void;
  hasDrafts(openId: number | undefined): boolean;
  forgetDraftsOf(userId: number): void;
}

export interface ClientModule {
  createClient(parts: {
    connection: { lost(): void; answering(): Promise<void> };
    apiKey: { readonly value: string | undefined; ask(): Promise<boolean> };
    log: { start(): { end(): void; cancel(): void } };
  }): (call: { method: string; url: URL; signal?: AbortSignal }) => Promise<{ status: number }>;
  sendWithId(method: string, send: (id: string) => Promise<{ response: Response }>): Promise<unknown>;
  isOwnRequest(requestId: string): Promise<boolean>;
}

export interface ConnectionModule {
  receive<T>(
    url: URL,
    options: { signal: AbortSignal | undefined },
    silenceMs: number,
    read: (response: Response, parts: AsyncIterable<string>) => Promise<T>,
  ): Promise<T>;
  Connection: new () => EventTarget & { lost(): void; answering(): Promise<void> };
}

const require = createRequire(import.meta.url);

/** Loads a module of the console by its path below `public/`. */
export function loadModule<T>(path: string): T {
  return require(`../../public/${path}`);
}
