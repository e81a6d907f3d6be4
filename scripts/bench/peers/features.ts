/**
 * Usual features in production for a peer: one JSON log line per request by pino, a histogram by prom-client,
 * request ids, and a limit on requests in flight. Only with --features.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pino } from 'pino';
import { Histogram } from 'prom-client';

export const withFeatures = process.argv.includes('--features');

// The fastest setting of pino, which collects lines as the service does.
export const log = pino(pino.destination({ sync: false, minLength: 4_096 }));

const seconds = new Histogram({
  name: 'http_request_duration_seconds',
  help: 'Duration of requests.',
  labelNames: ['method', 'route', 'status'],
  buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
});
const maxUnderWay = 1_000;
let underWay = 0;

export function requestId(given: unknown): string {
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID();
}

/** Counts a started request. Returns false if there are too many. */
export function enter(): boolean {
  if (underWay >= maxUnderWay) return false;
  underWay += 1;
  return true;
}

export interface Finished {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

/** Counts an ended request with its log line and its histogram. */
export function leave(finished: Finished): void {
  underWay -= 1;
  const { method, route, status, ms } = finished;
  seconds.observe({ method, route, status }, ms / 1000);
  log.info(finished, 'request');
}

/** The same features as middleware, for frameworks with the request and response of Node.js. */
export function observed(
  request: IncomingMessage,
  response: ServerResponse,
  routeOf: () => string | undefined,
): boolean {
  if (!enter()) {
    response.writeHead(503).end();
    return false;
  }
  const startedAt = performance.now();
  const id = requestId(request.headers['x-request-id']);
  response.setHeader('x-request-id', id);
  const { method = '', url: path = '' } = request;
  response.once('close', () => {
    const ms = performance.now() - startedAt;
    leave({ id, method, path, route: routeOf() ?? 'unmatched', status: response.statusCode, ms });
  });
  return true;
}
