import { readOptions } from '../config.ts';
import { Access } from '../domain/access.ts';
import { checkRepository } from '../domain/repository.ts';
import { createHttpApi, type RequestListenerOptions } from '../rest/app.ts';
import { fanOut } from '../telemetry/events.ts';
import { Metrics, renderMetrics } from '../telemetry/metrics.ts';

// biome-ignore format: one line for each name is longer to read.
const optionNames: readonly string[] = [
  'repository', 'apiKeys', 'auth', 'requirePreconditions', 'cors', 'allowedHosts', 'utilityRoutes', 'maxFollowers',
  'publicDir', 'basePath', 'limits', 'observe',
] satisfies (keyof RequestListenerOptions)[];

/** A listener for a host application, and the observer whose events its metrics count. */
export function createObservedListener(options: RequestListenerOptions) {
  checkRepository(options?.repository);
  for (const name in options)
    if (!optionNames.includes(name)) throw new TypeError(`${name} is not an option`);
  const checked = readOptions(options);
  const metrics = new Metrics();
  const observe = fanOut(options.observe, metrics.observe);
  const api = createHttpApi(checked, {
    access: new Access(checked.auth, checked.apiKeys),
    observe,
    unreadyReason: () => undefined,
    renderMetrics() {
      const { listener, followers } = api;
      return renderMetrics(metrics.snapshot({ inFlight: { http: listener.inFlight }, followers }));
    },
  });
  return { listener: api.listener.onRequest, observe };
}
