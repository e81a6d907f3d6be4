import type { Access, Need } from '../domain/access.ts';
import { DomainError, unlessAborted } from '../domain/errors.ts';
import { recordKinds } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { Route } from '../http/listener.ts';
import { HttpError, json, jsonText } from '../http/reply.ts';
import type { Handler } from '../http/request.ts';
import { changes } from './changes.ts';
import type { Followers } from './followers.ts';
import { recordRoutes, resources } from './resources.ts';

/** `open`: without a key in every mode. */
export type RouteAccess = Need | 'open';

export interface RouteDefinition {
  /** `METHOD /path/{parameter}`. */
  readonly pattern: string;
  readonly access: RouteAccess;
  readonly handle: Handler;
  /** Probes and dashboards, which matter most under load, are `first`. Default: `limited`. */
  readonly priority?: Route['priority'];
}

export interface RouteDependencies {
  readonly repository: Repository;
  readonly requirePreconditions: boolean;
  readonly utilityRoutes?: 'on' | 'off' | undefined;
  /** Absent if the store keeps no changes. */
  readonly followers?: Followers | undefined;
  /** The reason why the service is not ready; `undefined` when it is ready. */
  readonly unreadyReason: () => string | undefined;
  readonly renderMetrics: () => string | Promise<string>;
}

/** Every route of the HTTP API except the static files. */
export function routes(dependencies: RouteDependencies): readonly RouteDefinition[] {
  const { repository, requirePreconditions, utilityRoutes, followers, renderMetrics } = dependencies;
  const metrics: Handler = async () => ({
    status: 200,
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
    body: await renderMetrics(),
  });
  const utility: readonly RouteDefinition[] = [
    { pattern: 'GET /info', access: 'open', handle: info },
    { pattern: 'POST /echo', access: 'open', handle: echo },
    { pattern: 'GET /private', access: 'key', handle: () => json(200, { secretData: 42 }, noStore) },
    { pattern: 'GET /boom', access: 'open', handle: boom },
  ];
  return [
    ...recordKinds.flatMap((kind) => recordRoutes(resources[kind], repository, requirePreconditions)),
    ...(followers ? [{ pattern: 'GET /changes', access: 'read' as const, handle: changes(followers) }] : []),
    { pattern: 'GET /health', access: 'open', handle: health, priority: 'first' },
    { pattern: 'GET /health/ready', access: 'open', handle: ready(dependencies), priority: 'first' },
    { pattern: 'GET /metrics', access: 'metrics', handle: metrics, priority: 'first' },
    ...(utilityRoutes === 'off' ? [] : utility),
  ];
}

/** Adds the check of the API key before a handler. No other function of the HTTP API checks keys of routes. */
export function requireKey({ access: need, handle }: RouteDefinition, keys: Access): Handler {
  if (need === 'open' || keys.isOpen(need)) return handle;
  return (request) => {
    keys.check(need, request.header('x-api-key'), (name) => {
      request.keyName = name;
    });
    return handle(request);
  };
}

const noStore = { 'cache-control': 'no-store' };
// Probes give up after a few seconds, and a 503 contains a reason.
export const readyTimeoutMs = 2_000;

/** Liveness: the process responds. It does not use the store, because a restart of the store must not restart us. */
const health: Handler = () => json(200, { ok: true }, noStore);

/** Readiness: whether to send new requests here. */
function ready({ repository, unreadyReason }: RouteDependencies): Handler {
  return async () => {
    const reason = unreadyReason();
    // This is not a failure, so no failure is reported.
    if (reason !== undefined) throw new HttpError(503, reason);
    const signal = AbortSignal.timeout(readyTimeoutMs);
    try {
      // A repository in plain JavaScript may return another thenable, or no promise.
      await unlessAborted(Promise.resolve(repository.ping({ signal })), signal);
    } catch (cause) {
      throw new DomainError('unavailable', 'the store does not answer', { cause });
    }
    return json(200, { ok: true }, noStore);
  };
}

const info: Handler = ({ method, basePath, target, raw }) => {
  // The response to HEAD has the length of the response to GET.
  const shown = method === 'HEAD' ? 'GET' : method;
  return json(200, { method: shown, path: `${basePath}${target.path}`, headers: raw.headers }, noStore);
};

/** Returns the original text of the body, so that numbers and repeated keys do not change. */
const echo: Handler = async (request) => {
  const { text } = await request.json(undefined, Number.POSITIVE_INFINITY);
  return jsonText(200, `{"youSent":${text}}`, noStore);
};

/** Always fails, to show and to test the response and the events of a failure. */
const boom: Handler = () => {
  throw new DomainError('internal', 'boom', { cause: new Error('/boom was requested') });
};
