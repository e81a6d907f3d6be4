import { fileURLToPath } from 'node:url';
import { Access, type AuthMode } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import { checkLimits, defaultLimits, type ListenerLimits } from '../http/limits.ts';
import { type Handler, HttpListener, type Route } from '../http/listener.ts';
import { pagePolicy } from '../http/page-policy.ts';
import { parsePattern } from '../http/pattern.ts';
import type { Headers } from '../http/reply.ts';
import { Router } from '../http/router.ts';
import { listFiles, serveFile } from '../http/static.ts';
import type { Observe } from '../telemetry/events.ts';
import { corsHeaders } from './cors.ts';
import { toHttpError } from './errors.ts';
import { guarded, routes } from './routes.ts';

export interface RequestListenerOptions {
  readonly repository: Repository;
  /** The keys that `x-api-key` may hold; several while one replaces another. Default: none. */
  readonly apiKeys?: readonly string[];
  /** Which calls on users and posts need a key. Default: `none`. */
  readonly auth?: AuthMode;
  /** Whether PUT, PATCH and DELETE must carry If-Match. Default: false. */
  readonly requirePreconditions?: boolean;
  /** Origins whose pages may call, such as `https://app.example`; `*` for all. Default: none. */
  readonly cors?: readonly string[];
  /** A folder of files to serve, read once; `false` for none. Default: the package's own console. */
  readonly publicDir?: string | false;
  /** The prefix the listener is mounted under, such as `/api`. Default: none. */
  readonly basePath?: string;
  /** Bounds; each has a default of its own. */
  readonly limits?: Partial<ListenerLimits>;
  /** Receives every event. Default: nobody does. */
  readonly observe?: Observe;
}

/** What a listener needs besides its options; a service shares it between its faces. */
export interface FaceHooks {
  readonly observe: Observe;
  /** Why no new work should come; `undefined` when it should. */
  readonly refusal: () => string | undefined;
  readonly renderMetrics: () => string | Promise<string>;
}

const packagePublicDir = new URL('../../public', import.meta.url);
/** The file that describes the HTTP face, where the public folder has it. */
const descriptionPath = '/openapi.json';

/** The listener with its handle, for whoever runs it. */
export function createHttpFace(options: RequestListenerOptions, hooks: FaceHooks): HttpListener {
  const { repository, apiKeys = [], auth = 'none', basePath = '', requirePreconditions = false } = options;
  const { publicDir = fileURLToPath(packagePublicDir) } = options;
  const access = new Access(auth, apiKeys);
  const router = new Router<Route>();
  for (const definition of routes({ repository, access, requirePreconditions, ...hooks })) {
    const pattern = parsePattern(definition.pattern);
    const handle = guarded(definition, access);
    router.add(pattern, { template: pattern.template, handle, vital: definition.vital ?? false });
  }
  const cors = corsHeaders(options.cors ?? []);
  const files = publicDir === false ? [] : listFiles(publicDir);
  const described = files.some((file) => file.pattern.template === descriptionPath);
  // RFC 8631: whoever knows only an address finds the description by OPTIONS, or from the root.
  const description: Headers = described
    ? { link: `<${basePath}${descriptionPath}>; rel="service-desc"` }
    : {};
  for (const file of files) {
    // The API wins over a file of the same name.
    if (router.has(file.pattern)) continue;
    const handle: Handler = (request) => serveFile(file, request);
    // A folder of somebody else's has pages of which we do not know who may frame them.
    const isOurPage = options.publicDir === undefined && file.plain.path.endsWith('.html');
    const headers = {
      ...(file.pattern.template === '/' && description),
      ...(isOurPage && pagePolicy(file.plain.path)),
    };
    router.add(file.pattern, {
      template: 'static',
      handle: Object.keys(headers).length > 0 ? withHeaders(handle, headers) : handle,
      vital: true,
    });
  }
  return new HttpListener({
    router,
    basePath,
    toHttpError: (caught, request) => toHttpError(caught, request, hooks.observe),
    commonHeaders: (request) =>
      request.method === 'OPTIONS' ? { ...cors(request), ...description } : cors(request),
    observe: hooks.observe,
    limits: checkLimits({ ...defaultLimits, ...options.limits }),
  });
}

function withHeaders(handle: Handler, headers: Headers): Handler {
  return async (request) => {
    const reply = await handle(request);
    return { ...reply, headers: { ...reply.headers, ...headers } };
  };
}
