import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { countersOf, sumMetrics } from '../../src/telemetry/sum-metrics.ts';

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
    traceparent: undefined,
  };
}

/** The metrics of a process that has answered requests. */
function metricsOf(...requests: readonly RequestEvent[]): string {
  const metrics = new Metrics();
  for (const event of requests) metrics.observe(event);
  return metrics.render({ http: requests.length, grpc: 0 });
}

const fast = request('/fast', 1);
const slow = request('/a "slow" one', 2_000);

test('the sum of what several counted is what one would have counted', () => {
  const whole = metricsOf(fast, fast, slow, slow);
  assert.equal(sumMetrics([metricsOf(fast, slow), metricsOf(fast, slow)]), whole);
  assert.equal(sumMetrics([metricsOf(fast, fast, slow, slow), metricsOf()]), whole);
  assert.equal(sumMetrics([metricsOf(), metricsOf(fast, slow), metricsOf(fast, slow)]), whole);
});

test('series that only one has stand among those of their family', () => {
  const lines = (text: string) => text.split('\n').sort();
  const sum = sumMetrics([metricsOf(fast), metricsOf(slow)]);
  assert.deepEqual(lines(sum), lines(metricsOf(fast, slow)));
  const families = [...sum.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  assert.equal(families.length, new Set(families).size);
  let family = '';
  for (const line of sum.trim().split('\n')) {
    family = /^# HELP (\S+)/.exec(line)?.[1] ?? family;
    assert.ok(line.includes(family), `${line} under ${family}`);
  }
});

test('nothing is the sum of nothing, and adds nothing', () => {
  assert.equal(sumMetrics([]), '');
  assert.equal(sumMetrics(['', metricsOf(fast)]), metricsOf(fast));
});

test('of one that is gone the counts stay, and what was under way does not', () => {
  const gone = countersOf(metricsOf(fast, slow));
  assert.doesNotMatch(gone, /in_flight/);
  const sum = sumMetrics([metricsOf(fast), gone]);
  assert.match(sum, /requests_in_flight\{face="http"\} 1\n/);
  assert.match(sum, /requests_total\{face="http",method="GET",route="\/fast",status="200"\} 2\n/);
});
