import type { Access } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { postHandlers } from './posts.ts';
import { userHandlers } from './users.ts';
import { boom, echo, health, info, ready, secret } from './utility.ts';

/** Who is let in: anybody, holders of a key by `auth`, or by `auth` and nothing else open. */
export type RouteAccess = 'open' | 'read' | 'write' | 'operator';

export interface RouteDefinition {
  /** `METHOD /path/{parameter}`. */
  readonly pattern: string;
  readonly access: RouteAccess;
  readonly handle: Handler;
  /** Answered under any load, because probes and dashboards are needed then most. */
  readonly vital?: boolean;
}

export interface RouteDependencies {
  readonly repository: Repository;
  readonly access: Access;
  readonly requirePreconditions: boolean;
  /** Why the service should get no new work; `undefined` when it should. */
  readonly refusal: () => string | undefined;
  /** The metrics in Prometheus' text format. */
  readonly renderMetrics: () => string | Promise<string>;
}

/** Every route of the HTTP face but the static files. */
export function routes(dependencies: RouteDependencies): readonly RouteDefinition[] {
  const { repository, access, requirePreconditions, refusal, renderMetrics } = dependencies;
  const users = userHandlers(repository, requirePreconditions);
  const posts = postHandlers(repository);
  const metrics: Handler = async () => ({
    status: 200,
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
    body: await renderMetrics(),
  });
  return [
    { pattern: 'GET /users', access: 'read', handle: users.list },
    { pattern: 'POST /users', access: 'write', handle: users.create },
    { pattern: 'GET /users/{id}', access: 'read', handle: users.get },
    { pattern: 'PUT /users/{id}', access: 'write', handle: users.replace },
    { pattern: 'PATCH /users/{id}', access: 'write', handle: users.update },
    { pattern: 'DELETE /users/{id}', access: 'write', handle: users.remove },
    { pattern: 'GET /users/{id}/posts', access: 'read', handle: posts.list },
    { pattern: 'POST /users/{id}/posts', access: 'write', handle: posts.create },
    { pattern: 'GET /health', access: 'open', handle: health, vital: true },
    { pattern: 'GET /health/ready', access: 'open', handle: ready(repository, refusal), vital: true },
    { pattern: 'GET /metrics', access: 'operator', handle: metrics, vital: true },
    { pattern: 'GET /info', access: 'open', handle: info },
    { pattern: 'POST /echo', access: 'open', handle: echo },
    { pattern: 'GET /private', access: 'open', handle: secret(access) },
    { pattern: 'GET /boom', access: 'open', handle: boom },
  ];
}

/** Puts the check of the caller's key before a handler. */
export function guarded({ access: kind, handle }: RouteDefinition, access: Access): Handler {
  if (kind === 'open' || access.mode === 'none') return handle;
  return (request) => {
    const key = request.header('x-api-key');
    if (kind === 'operator') access.require(key);
    else access.check(kind, key);
    return handle(request);
  };
}
