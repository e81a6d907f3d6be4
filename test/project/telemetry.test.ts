import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { createLog, type LineSink } from '../../src/telemetry/log.ts';
import { eventLoopMetrics, Metrics, renderMetrics, usageMetrics } from '../../src/telemetry/metrics.ts';
import { compareTable, documents } from '../kit/markdown.ts';
import { parseMetrics } from '../support/prometheus.ts';

// The documentation of events and metrics, compared with the source.

type Sample<Type extends ServiceEvent['type']> = Required<Extract<ServiceEvent, { type: Type }>>;

/** An event of each type with all its fields. A new type or field does not compile without its sample. */
const samples: { readonly [Type in ServiceEvent['type']]: Sample<Type> } = {
  listening: { type: 'listening', http: 'http://a', grpc: 'a', files: 1 },
  request: {
    type: 'request',
    face: 'http',
    id: 'a',
    method: 'GET',
    path: '/users',
    status: 200,
    durationMs: 1,
    route: '/users',
    traceparent: '00-a',
    key: 'app',
    longLived: true,
  },
  refused: { type: 'refused', face: 'http', status: 503, reason: 'a' },
  failure: { type: 'failure', where: 'store', requestId: 'a', key: 'app', cause: new Error('a') },
  warning: { type: 'warning', message: 'a' },
  created: { type: 'created', path: '/a' },
  reloaded: { type: 'reloaded' },
  draining: { type: 'draining' },
  closed: { type: 'closed' },
};
const events: readonly ServiceEvent[] = Object.values(samples);

const namesText = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ');

/** The lines that a log of these events prints, as objects. `isFull` means that its reader does not read. */
function logged(observed: readonly ServiceEvent[], isFull = false): Record<string, unknown>[] {
  let text = '';
  const sink: LineSink = {
    write: (part) => {
      text += part;
    },
    writableLength: isFull ? 1 : 0,
  };
  const log = createLog('json', sink, '1.0.0');
  for (const event of observed) log.observe(event);
  log.flush();
  if (isFull) log.observe(samples.closed);
  log.flush();
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
}

test('the documentation lists the lines of the log with their fields', () => {
  const long = { type: 'warning', message: 'x'.repeat(4_096) } as const;
  const dropped = logged(Array(1_100).fill(long), true).find(({ event }) => event === 'dropped');
  assert.ok(dropped);
  compareTable(
    'log events',
    [...logged(events), dropped].map(({ time: _, event, ...fields }) => [
      `\`${event}\``,
      namesText(Object.keys(fields)),
      undefined,
    ]),
  );
});

test('the documentation lists the events of an observer with their fields', () => {
  compareTable(
    'observe events',
    events.map(({ type, ...fields }) => [`\`${type}\``, namesText(Object.keys(fields))]),
  );
});

test('the documentation lists all metrics with their type, labels, meaning and buckets', () => {
  const metrics = new Metrics();
  const { request, refused, failure } = samples;
  for (const event of [{ ...request, longLived: false }, refused, failure]) metrics.observe(event);
  metrics.standbyRead({ host: 'a', outcome: 'late', waitMs: 1, lagBytes: 1 });
  const snapshot = metrics.snapshot({ inFlight: { http: 0 }, connections: { http: 0 }, certificateEnd: 1 });
  const workers = { 'users_service_workers{numbers="current"}': 1 };
  const families = parseMetrics(
    renderMetrics({
      ...snapshot,
      ...eventLoopMetrics(),
      ...usageMetrics({ user: 1, system: 1, rss: 1 }),
      ...workers,
      users_service_log_lines_dropped_total: 0,
    }),
  );
  const source = readFileSync(new URL('../../src/telemetry/metrics.ts', import.meta.url), 'utf8');
  const known = [...source.matchAll(/^ {2}((?:users_service|process)_\w+):(?: '|$)/gm)].map(
    ([, name = '']) => name,
  );
  assert.deepEqual([...families.keys()].sort(), known.toSorted());
  compareTable(
    'metrics',
    known.map((name) => {
      const { type = '', help = '', samples = [] } = families.get(name) ?? {};
      const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)));
      labels.delete('le');
      return [`\`${name}\``, type, namesText([...labels]), help];
    }),
  );
  const histogram = families.get('users_service_request_duration_seconds');
  const bounds =
    histogram?.samples.flatMap(({ labels: { le = '+Inf' } }) => (le === '+Inf' ? [] : [le])) ?? [];
  const list = `${bounds.slice(0, -1).join(', ')} and ${bounds.at(-1)} seconds`;
  assert.ok(bounds.length > 10 && documents.get('src/telemetry/README.md')?.includes(list), list);
});
