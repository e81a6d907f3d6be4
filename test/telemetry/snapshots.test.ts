import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import {
  countersOf,
  eventLoopMetrics,
  Metrics,
  type MetricsSnapshot,
  renderMetrics,
  sumSnapshots,
  usageMetrics,
} from '../../src/telemetry/metrics.ts';

function request(route: string, durationMs: number): RequestEvent {
  return {
    type: 'request',
    face: 'http',
    id: 'a',
    method: 'GET',
    route,
    path: route,
    status: 200,
    durationMs,
    longLived: false,
    traceparent: undefined,
    key: undefined,
  };
}

/** The metrics of a process that has served requests, as another process receives them. */
function metricsOf(...requests: readonly RequestEvent[]): MetricsSnapshot {
  const metrics = new Metrics();
  for (const event of requests) metrics.observe(event);
  return JSON.parse(JSON.stringify(metrics.snapshot({ inFlight: { http: requests.length, grpc: 0 } })));
}

const fast = request('/fast', 1);
const slow = request('/a "slow" one', 2_000);

test('the sum of several snapshots equals the snapshot of one process with the same events', () => {
  const whole = metricsOf(fast, fast, slow, slow);
  assert.deepEqual(sumSnapshots([metricsOf(fast, slow), metricsOf(fast, slow)]), whole);
  assert.deepEqual(sumSnapshots([metricsOf(fast, fast, slow, slow), metricsOf()]), whole);
  assert.deepEqual(sumSnapshots([metricsOf(), metricsOf(fast, slow), metricsOf(fast, slow)]), whole);
});

test('a snapshot does not change after it was taken', () => {
  const metrics = new Metrics();
  metrics.observe({ type: 'failure', where: 'http', cause: 'lost' });
  const snapshot = metrics.snapshot();
  const before = renderMetrics(snapshot);
  metrics.observe({ type: 'failure', where: 'http', cause: 'lost' });
  assert.equal(renderMetrics(snapshot), before);
});

test('a series that only one process has is listed with its family', () => {
  const lines = (snapshot: MetricsSnapshot) => renderMetrics(snapshot).split('\n').sort();
  const sum = sumSnapshots([metricsOf(fast), metricsOf(slow)]);
  assert.deepEqual(lines(sum), lines(metricsOf(fast, slow)));
  const text = renderMetrics(sum);
  const families = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  assert.equal(families.length, new Set(families).size);
  let family = '';
  for (const line of text.trim().split('\n')) {
    family = /^# HELP (\S+)/.exec(line)?.[1] ?? family;
    assert.ok(line.includes(family), `${line} under ${family}`);
  }
});

test('the sum of no snapshots is empty, and an empty snapshot does not change a sum', () => {
  assert.deepEqual(sumSnapshots([]), {});
  assert.deepEqual(sumSnapshots([{}, metricsOf(fast)]), metricsOf(fast));
});

test('after a process has exited, its counters are kept and its requests in flight are not', () => {
  const gone = countersOf(metricsOf(fast, slow));
  assert.doesNotMatch(renderMetrics(gone), /in_flight\{/);
  const sum = renderMetrics(sumSnapshots([metricsOf(fast), gone]));
  assert.match(sum, /requests_in_flight\{face="http"\} 1\n/);
  assert.match(sum, /requests_total\{face="http",method="GET",route="\/fast",status="200"\} 2\n/);
  assert.match(sum, /duration_seconds_count\{face="http",route="\/fast"\} 2\n/);
});

test('the certificate that ends first counts, and the memory of a process that has exited does not', () => {
  const usage = usageMetrics({ user: 1_500_000, system: 500_000, rss: 7 });
  const [early, late] = [100, 200].map((end) => ({
    ...new Metrics().snapshot({ certificateEnd: end }),
    ...usage,
  }));
  assert.ok(early && late);
  for (const ends of [
    [early, late],
    [late, early],
  ]) {
    const sum = renderMetrics(sumSnapshots([metricsOf(fast), ...ends, countersOf(early)]));
    assert.match(sum, /^users_service_certificate_expiry_time_seconds 100$/m);
    assert.match(sum, /^process_cpu_seconds_total 6$/m);
    assert.match(sum, /^process_resident_memory_bytes 14$/m);
  }
  const renewed = renderMetrics(sumSnapshots([late, countersOf(early)]));
  assert.match(renewed, /^users_service_certificate_expiry_time_seconds 200$/m);
});

test('the time of the event loop is in seconds, by its state', (t) => {
  const utilization = { active: 1_500, idle: 250, utilization: 6 / 7 };
  t.mock.method(performance, 'eventLoopUtilization', () => utilization);
  const text = renderMetrics(eventLoopMetrics());
  assert.match(text, /^users_service_event_loop_seconds_total\{state="active"\} 1\.5$/m);
  assert.match(text, /^users_service_event_loop_seconds_total\{state="idle"\} 0\.25$/m);
});

test('the rendered metrics have the start of this process, and those of workers that of their primary', () => {
  const startOf = (snapshot: MetricsSnapshot) =>
    Number(/^users_service_start_time_seconds (\S+)$/m.exec(renderMetrics(snapshot))?.[1]);
  assert.equal(startOf(metricsOf(fast)), performance.timeOrigin / 1000);
  const ofPrimary = { users_service_start_time_seconds: 7 };
  assert.equal(startOf(sumSnapshots([metricsOf(fast), metricsOf(slow), ofPrimary])), 7);
});
