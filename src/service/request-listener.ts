import { readOptions } from '../config.ts';
import { Access } from '../domain/access.ts';
import { checkRepository } from '../domain/repository.ts';
import type { RequestListener } from '../http/listener.ts';
import { createHttpApi, type RequestListenerOptions } from '../rest/app.ts';
import { fanOut } from '../telemetry/events.ts';
import { Metrics, renderMetrics } from '../telemetry/metrics.ts';

// The package exports this file as `users-service/http`, so it has only what a host needs.
export type { RequestListenerOptions };

// biome-ignore format: one line for each name is longer to read.
const optionNames: readonly string[] = [
  'repository', 'apiKeys', 'auth', 'requirePreconditions', 'cors', 'allowedHosts', 'utilityRoutes', 'maxFollowers',
  'publicDir', 'basePath', 'limits', 'observe',
] satisfies (keyof RequestListenerOptions)[];

/**
 * The HTTP API as a plain `(request, response, next?)` listener, which can be mounted beside other routes:
 * `createServer(createRequestListener({ repository }))`. Calls `next`, if the host passes it, for an unknown path.
 * Throws when an option is wrong or the public folder cannot be read.
 */
export function createRequestListener(options: RequestListenerOptions): RequestListener {
  checkRepository(options?.repository);
  for (const name in options)
    if (!optionNames.includes(name)) throw new TypeError(`${name} is not an option`);
  const checked = readOptions(options);
  const metrics = new Metrics();
  const { listener, followers } = createHttpApi(checked, {
    access: new Access(checked.auth, checked.apiKeys),
    observe: fanOut(options.observe, metrics.observe),
    unreadyReason: () => undefined,
    renderMetrics: () =>
      renderMetrics(metrics.snapshot({ inFlight: { http: listener.inFlight }, followers })),
  });
  return listener.onRequest;
}
