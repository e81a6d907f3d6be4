import type { Observe, RequestEvent } from './events.ts';

// Upper bounds in seconds, from a cached read to a request that times out.
const bounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const buckets = [...bounds, Infinity];

/** All metrics, each with its help. By Prometheus' convention, the names of counters end in `_total`. */
const families = {
  users_service_start_time_seconds:
    'When the process started, or with several workers their primary, in seconds since 1970.',
  users_service_requests_total: 'Requests that have ended.',
  users_service_request_duration_seconds: 'From the request head to the last byte sent.',
  users_service_requests_in_flight: 'Requests being served.',
  users_service_connections: 'Open connections.',
  users_service_followers: 'Clients that follow the changes as a stream; not among the requests in flight.',
  users_service_changes_sent_total: 'Changes sent to clients that follow them.',
  users_service_key_requests_total: 'Requests by the name of their API key.',
  users_service_refused_total:
    'Rejected connections, calls and malformed requests, and slow clients that were cut.',
  users_service_store_failures_total: 'Calls and clean-ups that the store could not do.',
  users_service_failures_total: 'Failures inside the service, without overloads.',
  users_service_log_lines_dropped_total: 'Lines of the log that were lost.',
  users_service_standby_reads_total: 'Reads meant for a standby, by outcome.',
  users_service_standby_wait_seconds_total: 'How long reads waited for a standby to catch up.',
  users_service_standby_lag_bytes_total:
    'Log that a standby had not replayed when a read arrived, summed over all reads.',
  users_service_workers: 'Workers, by whether their numbers are current or from an earlier scrape.',
  users_service_certificate_expiry_time_seconds:
    'When the first certificate of the chain in use ends, in seconds since 1970.',
  users_service_event_loop_seconds_total: 'Time in which the event loop of the service was active or idle.',
  process_cpu_seconds_total: 'User and system processor time, of all threads.',
  process_resident_memory_bytes: 'Resident memory.',
};

type Family = keyof typeof families;

function typeOf(family: string): 'counter' | 'gauge' | 'histogram' {
  if (family === 'users_service_request_duration_seconds') return 'histogram';
  return family.endsWith('_total') ? 'counter' : 'gauge';
}

/** All series as plain data, by name and labels in Prometheus' format. */
export type MetricsSnapshot = Readonly<Record<string, number>>;

/** The start of this process. Behind a load balancer, it shows which copy of the service has sent the metrics. */
export const startTime = { users_service_start_time_seconds: performance.timeOrigin / 1000 };

/** What a process has used of its machine: times in microseconds, and memory in bytes. */
export type Usage = { readonly user: number; readonly system: number; readonly rss: number };

export function usageMetrics({ user, system, rss }: Usage): MetricsSnapshot {
  return { process_cpu_seconds_total: (user + system) / 1e6, process_resident_memory_bytes: rss };
}

/** Unlike the processor time, the active time includes waiting for a disk and for a free processor. */
export function eventLoopMetrics(): MetricsSnapshot {
  const { active, idle } = performance.eventLoopUtilization();
  const name = 'users_service_event_loop_seconds_total';
  return { [`${name}{state="active"}`]: active / 1000, [`${name}{state="idle"}`]: idle / 1000 };
}

/** The requests of a route that have ended. */
interface Requests {
  readonly face: RequestEvent['face'];
  /** The route as the value of a label. */
  readonly route: string;
  /** How many there are by method and status. Building the labels for each request would cost more than counting. */
  readonly counts: Record<string, Record<number, number>>;
  /** The latencies of those that were not endless streams. */
  readonly bucketCounts: number[];
  sum: number;
}

type ByFace = Readonly<Record<string, number>>;

/** The numbers of the two APIs that no event reports. Default: none of each. */
export interface ApiNumbers {
  /** How many requests are being served. */
  readonly inFlight?: ByFace;
  /** How many connections are open. */
  readonly connections?: ByFace;
  /** How many clients follow the changes, and how many changes were sent to all of them. */
  readonly followers?: { readonly open: number; readonly sent: number } | undefined;
  /** When the first certificate of the chain ends, in seconds since 1970. */
  readonly certificateEnd?: number | undefined;
}

export class Metrics {
  readonly #requests: Record<RequestEvent['face'], Record<string, Requests>> = { http: {}, grpc: {} };
  /** All other counters. */
  readonly #counts: Record<string, number> = {
    users_service_store_failures_total: 0,
    users_service_failures_total: 0,
  };

  readonly observe: Observe = (event) => {
    if (event.type === 'request') this.#addRequest(event);
    else if (event.type === 'refused') {
      this.#add(`users_service_refused_total{face="${event.face}",status="${event.status}"}`);
    } else if (event.type === 'failure' && event.where !== 'overload') {
      this.#add(`users_service_${event.where === 'store' ? 'store_' : ''}failures_total`);
    }
  };

  readonly standbyRead = (read: { host: string; outcome: string; waitMs: number; lagBytes: number }) => {
    const host = `host="${escapeLabel(read.host)}"`;
    this.#add(`users_service_standby_reads_total{${host},outcome="${read.outcome}"}`);
    this.#add(`users_service_standby_wait_seconds_total{${host}}`, read.waitMs / 1000);
    this.#add(`users_service_standby_lag_bytes_total{${host}}`, read.lagBytes);
  };

  #add(series: Family | `${Family}{${string}`, by = 1): void {
    this.#counts[series] = (this.#counts[series] ?? 0) + by;
  }

  #addRequest({ face, route, method, status, durationMs, longLived, key }: RequestEvent): void {
    // An unmatched path or method is text of the client: as a label it would create series without bound.
    const template = route ?? 'unmatched';
    const routes = this.#requests[face];
    routes[template] ??= { face, route: escapeLabel(template), counts: {}, bucketCounts: [], sum: 0 };
    const requests = routes[template];
    const knownMethod = route === undefined ? 'any' : method;
    requests.counts[knownMethod] ??= {};
    const counts = requests.counts[knownMethod];
    counts[status] = (counts[status] ?? 0) + 1;
    if (key !== undefined) this.#add(`users_service_key_requests_total{face="${face}",key="${key}"}`);
    if (longLived) return;
    const seconds = durationMs / 1000;
    const bucket = buckets.findIndex((bound) => seconds <= bound);
    requests.bucketCounts[bucket] = (requests.bucketCounts[bucket] ?? 0) + 1;
    requests.sum += seconds;
  }

  snapshot(numbers: ApiNumbers = {}): MetricsSnapshot {
    const { inFlight = {}, connections = {}, followers = { open: 0, sent: 0 } } = numbers;
    const { certificateEnd: end = Infinity } = numbers;
    const requests = Object.values(this.#requests).flatMap(Object.values<Requests>);
    return {
      ...Object.fromEntries([...requests.flatMap(countSeries), ...requests.flatMap(latencySeries)]),
      ...byFace('users_service_requests_in_flight', inFlight),
      ...byFace('users_service_connections', connections),
      users_service_followers: followers.open,
      users_service_changes_sent_total: followers.sent,
      ...(end < Infinity && { users_service_certificate_expiry_time_seconds: end }),
      ...this.#counts,
    };
  }
}

function byFace(family: Family, values: ByFace): MetricsSnapshot {
  return Object.fromEntries(Object.entries(values).map(([face, n]) => [`${family}{face="${face}"}`, n]));
}

type Series = readonly [series: string, value: number];

function countSeries({ face, route, counts }: Requests): Series[] {
  return Object.entries(counts).flatMap(([method, byStatus]) =>
    Object.entries(byStatus).map(([status, count]): Series => {
      const labels = `face="${face}",method="${method}",route="${route}",status="${status}"`;
      return [`users_service_requests_total{${labels}}`, count];
    }),
  );
}

function latencySeries({ face, route, bucketCounts, sum }: Requests): Series[] {
  const name = 'users_service_request_duration_seconds';
  const labels = `face="${face}",route="${route}"`;
  let count = 0;
  const cumulated = buckets.map((bound, i): Series => {
    count += bucketCounts[i] ?? 0;
    const le = bound === Infinity ? '+Inf' : bound;
    return [`${name}_bucket{${labels},le="${le}"}`, count];
  });
  return [...cumulated, [`${name}_sum{${labels}}`, sum], [`${name}_count{${labels}}`, count]];
}

function familyOf(series: string): string {
  return series.replace(/(?:_(?:bucket|sum|count))?(?:\{.*)?$/s, '');
}

/** Adds all series up. Of the ends of certificates, the earliest counts. */
export function sumSnapshots(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const sum: Record<string, number> = {};
  for (const [series, value] of snapshots.flatMap(Object.entries<number>)) {
    const isEnd = series === 'users_service_certificate_expiry_time_seconds';
    sum[series] = isEnd ? Math.min(sum[series] ?? value, value) : (sum[series] ?? 0) + value;
  }
  return sum;
}

/** The counters of a process that has exited, without its gauges. They are kept because a sum must not decrease. */
export function countersOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return Object.fromEntries(
    Object.entries(snapshot).filter(([series]) => typeOf(familyOf(series)) !== 'gauge'),
  );
}

/** Prometheus' text format 0.0.4, with the start of this process unless the snapshot has another. */
export function renderMetrics(snapshot: MetricsSnapshot): string {
  const values = Map.groupBy(Object.entries({ ...startTime, ...snapshot }), ([series]) => familyOf(series));
  const lines = Object.entries(families).flatMap(([family, help]) => {
    const samples = values.get(family)?.map(([series, value]) => `${series} ${value}`) ?? [];
    return [`# HELP ${family} ${help}`, `# TYPE ${family} ${typeOf(family)}`, ...samples];
  });
  return lines.map((line) => `${line}\n`).join('');
}

function escapeLabel(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}
