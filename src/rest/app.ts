import { fileURLToPath } from 'node:url';
import type { CheckedOptions } from '../config.ts';
import type { Access, AuthMode } from '../domain/access.ts';
import { messageOf } from '../domain/errors.ts';
import { mapAnswer, type Repository } from '../domain/repository.ts';
import { hostCheck, isLoopback } from '../http/head.ts';
import { HttpListener, type Route } from '../http/listener.ts';
import { type Headers, securityHeaders } from '../http/reply.ts';
import type { Handler, HttpRequest, ListenerLimits } from '../http/request.ts';
import { literalPattern, parsePattern, Router } from '../http/router.ts';
import { fileHandler, pagePolicy } from '../http/static.ts';
import { listFiles } from '../http/static-files.ts';
import type { Observe } from '../telemetry/events.ts';
import { toErrorResponse } from './errors.ts';
import { Followers } from './followers.ts';
import { patchTypes } from './resources.ts';
import { type RouteDependencies, requireKey, routes } from './routes.ts';

export interface RequestListenerOptions {
  /** An open store. The caller closes it. */
  readonly repository: Repository;
  /**
   * The keys that `x-api-key` may contain, each as `KEY` or, with scopes, as `NAME:read+write=KEY`; several while you
   * replace one. Default: none.
   */
  readonly apiKeys?: readonly string[];
  /** Which requests for users and posts need a key. Default: `none`. */
  readonly auth?: AuthMode;
  /** Whether PUT, PATCH and DELETE must carry If-Match. Default: false. */
  readonly requirePreconditions?: boolean;
  /** Origins whose pages may send requests, such as `https://app.example`; `*` for all. Default: none. */
  readonly cors?: readonly string[];
  /**
   * Host names that clients may use, such as `users.example`, without a port; `*` for all. `localhost`, 127.0.0.1 and
   * [::1] are always allowed. So are other IP addresses, unless the service listens on a loopback address. Default:
   * all names; for a service on a loopback address, only these three and its own address.
   */
  readonly allowedHosts?: readonly string[];
  /** Whether `/info`, `/echo`, `/private` and `/boom` exist. Default: `on`. */
  readonly utilityRoutes?: 'on' | 'off';
  /** How many clients may follow `/changes` as a stream; 0 for no limit. Default: 1,000. */
  readonly maxFollowers?: number;
  /** A folder of files to serve, listed once; `false` for none. Default: the package's own console. */
  readonly publicDir?: string | false | undefined;
  /** The prefix of all routes, such as `/api`, unless the host removes it from the URL. Default: none. */
  readonly basePath?: string;
  /** Limits of the HTTP API, each with its default. */
  readonly limits?: Partial<ListenerLimits>;
  /** Receives every event. Default: none. */
  readonly observe?: Observe;
}

/** The parameters of the HTTP API in a service, besides the options. */
export interface ApiHooks extends Pick<RouteDependencies, 'unreadyReason' | 'renderMetrics'> {
  readonly access: Access;
  readonly observe: Observe;
  /** Where the service listens, with its IP address. Absent in a host application, which checks host names itself. */
  readonly bound?: { readonly host: string; readonly address: string; readonly secure: boolean };
}

/** The HTTP API with the functions that a service needs to drain, measure and report it. */
export type HttpApi = ReturnType<typeof createHttpApi>;

const packagePublicDir = new URL('../../public', import.meta.url);
// Maximum size of all files of the public folder that are kept in memory.
const maxKeptBytes = 16 * 1024 * 1024;
const descriptionPath = '/openapi.json';

const preflightHeaders: Headers = {
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
  'access-control-allow-headers':
    'Content-Type, Cache-Control, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Idempotency-Key, Last-Event-ID, Prefer, Range, X-Api-Key, X-Request-Id, Traceparent, Tracestate, Baggage',
  // The maximum time that Chromium caches a preflight, in seconds.
  'access-control-max-age': '7200',
};
const exposedHeaders: Headers = {
  'access-control-expose-headers':
    'ETag, Link, Location, X-Total-Count, Preference-Applied, Retry-After, Idempotency-Replayed, X-Request-Id, Accept-Ranges, Content-Range, Allow, Accept, Accept-Encoding, Accept-Patch, Accept-Post, WWW-Authenticate',
};

export function createHttpApi(options: RequestListenerOptions & CheckedOptions, hooks: ApiHooks) {
  const { basePath = '', publicDir = fileURLToPath(packagePublicDir) } = options;
  const { access, observe, bound } = hooks;
  const { changes } = options.repository;
  const followers = changes && new Followers(changes, options.maxFollowers, observe);
  const router = new Router<Route>();
  for (const definition of routes({ ...options, ...hooks, followers })) {
    const { priority = 'limited' } = definition;
    const pattern = parsePattern(definition.pattern);
    const handle = requireKey(definition, access);
    router.add(pattern, { template: pattern.template, handle, priority });
  }
  const files = publicDir === false ? [] : filesOf(publicDir);
  const described = files.some(({ urlPath }) => urlPath === descriptionPath);
  // RFC 8631: a client that knows only the address finds the API description with OPTIONS or at the root.
  const description = ({ basePath }: HttpRequest): Headers =>
    described ? { link: `<${basePath}${descriptionPath}>; rel="service-desc"` } : {};
  const cache = { freeBytes: maxKeptBytes };
  for (const file of files) {
    // The API takes precedence.
    if (router.knows(file.urlPath.slice(1).split('/'))) continue;
    // Only our own pages are known to need no frames. Pages of another folder may be framed.
    const isOurPage = options.publicDir === undefined && file.plain.path.endsWith('.html');
    const serve = fileHandler(file, isOurPage ? pagePolicy(file.plain.path) : {}, cache);
    const handle = file.urlPath === '/' ? rootHandler(serve, description) : serve;
    router.add(literalPattern(file.urlPath), { template: 'static', handle, priority: 'exempt' });
  }
  // A browser applies HSTS to every port of a host name: on localhost, it would block other programs without TLS.
  const hsts = bound?.secure &&
    !isLoopback(bound.address) && { 'strict-transport-security': 'max-age=31536000' };
  const listener = new HttpListener({
    router,
    basePath,
    toErrorResponse: (caught, request) => toErrorResponse(caught, request, observe),
    commonHeaders: { ...securityHeaders, ...hsts },
    corsHeaders: corsHeaders(options.cors),
    optionsHeaders: (request, allow) => ({
      ...description(request),
      ...(allow.includes('PATCH') && { 'accept-patch': patchTypes.join(', ') }),
    }),
    checkHost: hostCheck(options.allowedHosts, bound?.host, bound?.address),
    observe,
    limits: options.limits,
  });
  return { listener, followers, files: new Set(files.map((file) => file.plain.path)).size };
}

function filesOf(publicDir: string) {
  try {
    return listFiles(publicDir);
  } catch (cause) {
    throw new Error(`publicDir cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** The root page, with a link to the API description. The URLs in it are relative, so `/api` redirects to `/api/`. */
function rootHandler(serve: Handler, description: (request: HttpRequest) => Headers): Handler {
  return (request) => {
    const { basePath, raw, target } = request;
    const headers = description(request);
    // Express removes the mount path from `url`, and keeps the whole URL in `originalUrl`.
    const url = 'originalUrl' in raw && typeof raw.originalUrl === 'string' ? raw.originalUrl : raw.url;
    if (basePath === '' || url?.split('?')[0]?.endsWith('/') === true) {
      return mapAnswer(serve(request), (reply) => ({ ...reply, headers: { ...reply.headers, ...headers } }));
    }
    const location = `${basePath}/${target.query === '' ? '' : `?${target.query}`}`;
    return { status: 308, headers: { location, 'cache-control': 'no-cache', ...headers } };
  };
}

/** Returns a function for the CORS headers of a reply. `*` in the list stands for every origin. */
function corsHeaders(origins: readonly string[]): ((request: HttpRequest) => Headers) | undefined {
  if (origins.length === 0) return undefined;
  const allowed = new Set(origins);
  const allowsAll = allowed.has('*');
  const headers: Headers = {
    // A page that may read a response may embed it.
    'cross-origin-resource-policy': 'cross-origin',
    // A cache must not serve the response to another origin, for which it differs.
    ...(!allowsAll && { vary: 'origin' }),
  };
  return (request) => {
    // With `*`, do not look at Origin: a cache may reuse the response for a page of any origin.
    const origin = allowsAll ? '*' : request.header('origin');
    if (origin === undefined || !allowed.has(origin)) return headers;
    const method = request.method === 'OPTIONS' ? request.header('access-control-request-method') : undefined;
    return {
      ...headers,
      'access-control-allow-origin': origin,
      ...(method === undefined ? exposedHeaders : preflightHeaders),
    };
  };
}
