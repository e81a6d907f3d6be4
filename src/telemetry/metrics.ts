import type { RequestEvent, ServiceEvent } from './events.ts';

// Upper bounds in seconds, from a cached read to a request that times out.
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

interface Series {
  readonly labels: string;
  count: number;
}

interface Histogram {
  readonly labels: string;
  readonly counts: number[];
  sum: number;
  count: number;
}

interface RouteSeries {
  /** By method, then status: looked up by what the event has, since a key put together would be hashed anew. */
  readonly requests: Map<string, Map<number, Series>>;
  readonly durations: Histogram;
}

/** Counts what the service reports and renders it in Prometheus' text format 0.0.4. */
export class Metrics {
  readonly #routes = { http: new Map<string, RouteSeries>(), grpc: new Map<string, RouteSeries>() };
  readonly #refused = new Map<string, number>();
  #storeFailures = 0;
  #failures = 0;

  observe(event: ServiceEvent): void {
    if (event.type === 'request') this.#request(event);
    else if (event.type === 'refused') {
      const labels = `face="${event.face}",status="${event.status}"`;
      this.#refused.set(labels, (this.#refused.get(labels) ?? 0) + 1);
    } else if (event.type === 'failure') {
      if (event.where === 'store') this.#storeFailures += 1;
      else this.#failures += 1;
    }
  }

  #request(event: RequestEvent): void {
    // A path nobody registered is the client's own text: as a label it would grow without bound.
    const route = event.route ?? 'unmatched';
    const method = event.route === undefined ? 'any' : event.method;
    const { requests, durations } = this.#seriesOf(event.face, route);
    let byStatus = requests.get(method);
    if (byStatus === undefined) {
      byStatus = new Map();
      requests.set(method, byStatus);
    }
    const series = byStatus.get(event.status);
    if (series !== undefined) {
      series.count += 1;
    } else {
      const labels = `face="${event.face}",method="${method}",route="${escapeLabel(route)}",status="${event.status}"`;
      byStatus.set(event.status, { labels, count: 1 });
    }
    const seconds = event.durationMs / 1000;
    let bucket = 0;
    while (seconds > (buckets[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
    if (bucket < buckets.length) durations.counts[bucket] = (durations.counts[bucket] ?? 0) + 1;
    durations.sum += seconds;
    durations.count += 1;
  }

  #seriesOf(face: RequestEvent['face'], route: string): RouteSeries {
    const known = this.#routes[face].get(route);
    if (known !== undefined) return known;
    const labels = `face="${face}",route="${escapeLabel(route)}"`;
    const durations = { labels, counts: buckets.map(() => 0), sum: 0, count: 0 };
    const added = { requests: new Map(), durations };
    this.#routes[face].set(route, added);
    return added;
  }

  /** `inFlight` is the number of requests under way on each face. */
  render(inFlight: Readonly<Record<string, number>>): string {
    const routes = [...this.#routes.http.values(), ...this.#routes.grpc.values()];
    const counts = routes.flatMap(({ requests }) => [...requests.values()].flatMap((s) => [...s.values()]));
    const lines = [
      ...family('users_service_requests_total', 'counter', 'Requests that have ended.'),
      ...counts.map((s) => `users_service_requests_total{${s.labels}} ${s.count}`),
      ...family('users_service_request_duration_seconds', 'histogram', 'From the head to the last byte out.'),
      ...routes.flatMap(({ durations }) => histogramLines(durations)),
      ...family('users_service_requests_in_flight', 'gauge', 'Requests under way.'),
      ...Object.entries(inFlight).map(([face, n]) => `users_service_requests_in_flight{face="${face}"} ${n}`),
      ...family('users_service_refused_total', 'counter', 'Connections refused before they were requests.'),
      ...[...this.#refused].map(([labels, count]) => `users_service_refused_total{${labels}} ${count}`),
      ...family('users_service_store_failures_total', 'counter', 'Calls the store could not answer.'),
      `users_service_store_failures_total ${this.#storeFailures}`,
      ...family('users_service_failures_total', 'counter', 'Failures inside the service.'),
      `users_service_failures_total ${this.#failures}`,
    ];
    return `${lines.join('\n')}\n`;
  }
}

function family(name: string, type: string, help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function histogramLines({ labels, counts, sum, count }: Histogram): string[] {
  const name = 'users_service_request_duration_seconds';
  let below = 0;
  const lines = buckets.map((bound, i) => {
    below += counts[i] ?? 0;
    return `${name}_bucket{${labels},le="${bound}"} ${below}`;
  });
  return [
    ...lines,
    `${name}_bucket{${labels},le="+Inf"} ${count}`,
    `${name}_sum{${labels}} ${sum}`,
    `${name}_count{${labels}} ${count}`,
  ];
}

function escapeLabel(label: string): string {
  return label.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}
