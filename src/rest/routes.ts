import type { Access, Scope } from '../domain/access.ts';
import { recordKinds } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { changes } from './changes.ts';
import type { Followers } from './followers.ts';
import { resources } from './resources.ts';
import { boom, echo, health, info, ready, secret } from './utility.ts';

/** The scope that a route needs if `auth` requires a key; `key`: any key is required, independent of `auth`. */
export type RouteAccess = 'open' | 'key' | Scope;

export interface RouteDefinition {
  /** `METHOD /path/{parameter}`. */
  readonly pattern: string;
  readonly access: RouteAccess;
  readonly handle: Handler;
  /** Served even beyond `maxInFlight`: probes and dashboards matter most under load. */
  readonly exempt?: boolean;
}

export interface RouteDependencies {
  readonly repository: Repository;
  readonly requirePreconditions: boolean;
  readonly utilityRoutes?: 'on' | 'off' | undefined;
  readonly followers?: Followers | undefined;
  /** The reason why the service is not ready; `undefined` when it is ready. */
  readonly refusal: () => string | undefined;
  /** The metrics in Prometheus' text format. */
  readonly renderMetrics: () => string | Promise<string>;
}

/** Every route of the HTTP API except the static files. */
export function routes(dependencies: RouteDependencies): readonly RouteDefinition[] {
  const { repository, requirePreconditions, utilityRoutes, followers, refusal, renderMetrics } = dependencies;
  const metrics: Handler = async () => ({
    status: 200,
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
    body: await renderMetrics(),
  });
  const utility: readonly RouteDefinition[] = [
    { pattern: 'GET /info', access: 'open', handle: info },
    { pattern: 'POST /echo', access: 'open', handle: echo },
    { pattern: 'GET /private', access: 'key', handle: secret },
    { pattern: 'GET /boom', access: 'open', handle: boom },
  ];
  const feed = repository.changes && changes(repository.changes, followers);
  return [
    ...recordKinds.flatMap((kind) => resources[kind].routes(repository, requirePreconditions)),
    ...(feed ? [{ pattern: 'GET /changes', access: 'read' as const, handle: feed }] : []),
    { pattern: 'GET /health', access: 'open', handle: health, exempt: true },
    { pattern: 'GET /health/ready', access: 'open', handle: ready(repository, refusal), exempt: true },
    { pattern: 'GET /metrics', access: 'metrics', handle: metrics, exempt: true },
    ...(utilityRoutes === 'off' ? [] : utility),
  ];
}

/** Adds the check of the API key before a handler. No other function of the HTTP API checks keys of routes. */
export function requireKey({ access: kind, handle }: RouteDefinition, access: Access): Handler {
  if (kind === 'open' || (kind !== 'key' && access.mode === 'none')) return handle;
  return (request) => {
    const key = request.header('x-api-key');
    request.keyName = kind === 'key' ? access.require(key) : access.check(kind, key);
    return handle(request);
  };
}
