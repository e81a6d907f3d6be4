import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  type LinkModule,
  loadModule,
  type MemoryModule,
  type MetricsModule,
  type Snapshot,
} from './modules.ts';

const { parseMetrics, takeSnapshot, latenciesBetween, ratesBetween } =
  loadModule<MetricsModule>('console/live/metrics.js');
const { parseLinks } = loadModule<LinkModule>('console/api/record-calls.js');
const { session, deletedUsers, markDeleted, hasDrafts, forgetDraftsOf } =
  loadModule<MemoryModule>('console/ui/memory.js');

suite('console: the text format of metrics', () => {
  for (const [name, line, expected] of [
    ['a bare number', 'up 1', [{ name: 'up', labels: {}, value: 1 }]],
    ['labels', 'a{b="c",d="e"} 2.5', [{ name: 'a', labels: { b: 'c', d: 'e' }, value: 2.5 }]],
    ['escapes', 'a{b="\\"\\\\\\n}"} 1', [{ name: 'a', labels: { b: '"\\\n}' }, value: 1 }]],
    ['a timestamp', 'a 1 1395066363000', [{ name: 'a', labels: {}, value: 1 }]],
    ['a trailing comma', 'a{b="c",} 1', [{ name: 'a', labels: { b: 'c' }, value: 1 }]],
    [
      'infinity',
      'a{le="+Inf"} +Inf',
      [{ name: 'a', labels: { le: '+Inf' }, value: Number.POSITIVE_INFINITY }],
    ],
    ['an exponent', 'a 1e-3', [{ name: 'a', labels: {}, value: 0.001 }]],
    ['comments', '# HELP a b\n# TYPE a counter', []],
    ['malformed lines', '<html>\n}{ 1\na', []],
    ['no text', '', []],
  ] as const) {
    test(`the console reads metrics with ${name}`, () => assert.deepEqual(parseMetrics(line), expected));
  }
});

test('the console keeps a text for which the storage of the browser has no space', () => {
  const long = 'x'.repeat(2 ** 24);
  session.write('draft.user.1', 'short');
  session.write('draft.user.1', long);
  session.write('draft.user.2', 'other');
  assert.ok(session.read('draft.user.1') === long, 'the older text is read');
  assert.deepEqual([...session.names()].toSorted(), ['draft.user.1', 'draft.user.2']);
  session.write('draft.user.1', undefined);
  session.write('draft.user.2', undefined);
  assert.equal(session.read('draft.user.1'), undefined);
  assert.deepEqual(session.names(), []);
});

test('the console remembers of the users that others delete only those with unsaved text', () => {
  session.write('draft.user.12', 'x');
  session.write('draft.post.2.7', 'x');
  for (const id of [1, 2, 7, 12]) markDeleted(id);
  assert.deepEqual([...deletedUsers], [2, 12]);
  assert.equal(hasDrafts(undefined), false);
  assert.equal(hasDrafts(2), true, 'the text of the open user can still be lost');
  for (const id of [2, 12]) forgetDraftsOf(id);
  assert.deepEqual(session.names(), []);
});

/** A snapshot of one route whose requests all took less than 0.01 s. */
function snapshot(atMs: number, requests: number, ...buckets: [number, number][]): Snapshot {
  return { atMs, startedAt: 1, requests, clientErrors: 0, serverErrors: 0, buckets: new Map(buckets) };
}

suite('console: rates', () => {
  test('rates include all requests except probes, and only statuses of HTTP count as 4xx and 5xx', () => {
    const text = [
      'users_service_start_time_seconds 3.5',
      'users_service_requests_total{route="/users",status="200"} 10',
      'users_service_requests_total{route="/users",status="404"} 3',
      'users_service_requests_total{route="/users",status="503"} 2',
      'users_service_requests_total{route="/Users/GetUser",status="4"} 5',
      'users_service_requests_total{route="/Users/GetUser",status="5"} 5',
      'users_service_requests_total{route="/metrics",status="200"} 100',
      'users_service_requests_total{route="/health",status="200"} 100',
      'users_service_requests_total{route="/health/ready",status="503"} 100',
      'users_service_requests_total{route="/grpc.health.v1.Health/Check",status="0"} 100',
      'users_service_request_duration_seconds_bucket{route="/users",le="0.1"} 14',
      'users_service_request_duration_seconds_bucket{route="/users/{id}",le="0.1"} 1',
      'users_service_request_duration_seconds_bucket{route="/metrics",le="0.1"} 100',
      'users_service_request_duration_seconds_bucket{route="/grpc.health.v1.Health/Check",le="0.1"} 100',
    ].join('\n');
    const { buckets, ...counts } = takeSnapshot(parseMetrics(text), 5);
    assert.deepEqual(counts, { atMs: 5, startedAt: 3.5, requests: 25, clientErrors: 3, serverErrors: 2 });
    assert.deepEqual([...buckets], [[0.1, 15]]);
  });

  test('rates are per second', () => {
    assert.equal(ratesBetween(snapshot(0, 10), snapshot(2_000, 30)).requests, 10);
  });

  test('rates are not negative when a service in the same process counts from 0 again', () => {
    const after = snapshot(1_000, 4, [0.1, 4], [Number.POSITIVE_INFINITY, 4]);
    const before = snapshot(0, 1_000, [0.1, 1_000], [Number.POSITIVE_INFINITY, 1_000]);
    assert.equal(ratesBetween(before, after).requests, 0);
    assert.equal(latenciesBetween(before, after).timed, 0);
  });

  const empty = snapshot(0, 0, [0.1, 0], [0.2, 0], [Number.POSITIVE_INFINITY, 0]);
  for (const [name, counts, p50, p99] of [
    ['that are spread evenly within a bucket', [100, 100, 100], 50, 99],
    ['that are all in the second bucket', [0, 100, 100], 150, 199],
    ['in two buckets', [50, 100, 100], 100, 198],
    ['above the last bound', [0, 0, 100], 200, 200],
    ['that are too few for p99', [10, 10, 10], 50, undefined],
    ['that are one too few for p99', [99, 99, 99], 50, undefined],
    ['that are too few for p50', [9, 9, 9], undefined, undefined],
    ['that do not exist', [0, 0, 0], undefined, undefined],
  ] as const) {
    test(`the console estimates the p50 and p99 of requests ${name}`, () => {
      const [first, second, all] = counts;
      const after = snapshot(1_000, all, [0.1, first], [0.2, second], [Number.POSITIVE_INFINITY, all]);
      const latencies = latenciesBetween(empty, after);
      assert.deepEqual(
        [latencies.p50, latencies.p99].map((ms) => ms && Math.round(ms)),
        [p50, p99],
      );
    });
  }
});

suite('console: Link headers', () => {
  for (const [name, header, expected] of [
    ['several links', '</a>; rel="first", </b?x=1,2;3>; rel="next"', { first: '/a', next: '/b?x=1,2;3' }],
    ['a bare relation', '</a>; rel=next', { next: '/a' }],
    ['two relations', '</a>; rel="first prev"', { first: '/a', prev: '/a' }],
    ['other parameters', '</a>; title="x"; REL="Next"', { next: '/a' }],
    ['two equal relations', '</a>; rel="next", </b>; rel="next"', { next: '/a' }],
    ['no relation', '</a>', {}],
    ['no text', null, {}],
    ['nonsense', 'next; rel=</a', {}],
  ] as const) {
    test(`the console reads a Link header with ${name}`, () =>
      assert.deepEqual(parseLinks(header), expected));
  }
});
