import type { TestContext } from 'node:test';
import { HttpListener, type ListenerOptions, type Route } from '../../src/http/listener.ts';
import { HttpError, json, securityHeaders } from '../../src/http/reply.ts';
import type { Handler } from '../../src/http/request.ts';
import { parsePattern, Router } from '../../src/http/router.ts';
import { HttpServer, type HttpServerOptions } from '../../src/http/server.ts';
import { openPort } from '../../src/service/ports.ts';
import type { RequestEvent, ServiceEvent } from '../../src/telemetry/events.ts';

export interface HttpKit {
  readonly port: number;
  readonly face: HttpListener;
  readonly events: readonly ServiceEvent[];
  /** Values that handlers threw, except `HttpError`s. */
  readonly thrown: readonly unknown[];
  /** Resolves with the next request that ends. */
  readonly nextRequest: () => Promise<RequestEvent>;
}

export interface HttpKitOptions {
  readonly limits?: Partial<ListenerOptions['limits']>;
  readonly timeouts?: Partial<HttpServerOptions['timeouts']>;
  readonly tls?: HttpServerOptions['tls'];
  readonly commonHeaders?: ListenerOptions['commonHeaders'];
}

const defaultLimits = {
  maxBodyBytes: 1024 * 1024,
  maxHeaders: 100,
  maxInFlight: 1_000,
  writeTimeoutMs: 60_000,
};

/** Serves handlers with only the HTTP kit, without users or a store, and closes it after the test. */
export async function startKit(
  t: Pick<TestContext, 'after'>,
  handlers: Readonly<Record<string, Handler>>,
  options: HttpKitOptions = {},
): Promise<HttpKit> {
  const events: ServiceEvent[] = [];
  const thrown: unknown[] = [];
  const waiting: ((event: RequestEvent) => void)[] = [];
  const observe = (event: ServiceEvent): void => {
    events.push(event);
    if (event.type === 'request') waiting.shift()?.(event);
  };
  const face = createFace(handlers, {
    basePath: '',
    observe,
    commonHeaders: options.commonHeaders ?? securityHeaders,
    toErrorResponse: (caught) => {
      if (caught instanceof HttpError) return caught;
      thrown.push(caught);
      return new HttpError(500, 'internal error');
    },
    limits: { ...defaultLimits, ...options.limits },
  });
  const timeouts = { headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, keepAliveTimeoutMs: 72_000 };
  const server = new HttpServer({
    observe,
    timeouts: { ...timeouts, ...options.timeouts },
    maxHeaders: options.limits?.maxHeaders ?? 100,
    ...(options.tls && { tls: options.tls }),
  });
  const { port } = await openPort('port', '127.0.0.1', 0, server.server);
  server.serve(face.onRequest);
  t.after(() => server.close({ idleMs: 0, signal: AbortSignal.abort() }));
  return {
    port,
    face,
    events,
    thrown,
    nextRequest: () => new Promise((resolve) => waiting.push(resolve)),
  };
}

/** A listener for handlers by their patterns. */
export function createFace(
  handlers: Readonly<Record<string, Handler>>,
  options: Omit<ListenerOptions, 'router'>,
): HttpListener {
  const router = new Router<Route>();
  for (const [source, handle] of Object.entries(handlers)) {
    const pattern = parsePattern(source);
    router.add(pattern, { template: pattern.template, handle, priority: 'limited' });
  }
  return new HttpListener({ router, ...options });
}

/** A handler that reports when it is called, and responds when it is released. */
export function held(): { handle: Handler; called: Promise<void>; release: () => void } {
  const called = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const handle: Handler = async () => {
    called.resolve();
    await released.promise;
    return json(200, 'held');
  };
  return { handle, called: called.promise, release: released.resolve };
}
