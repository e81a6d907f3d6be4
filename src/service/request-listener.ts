import type { RequestListener } from '../http/listener.ts';
import type { RequestListenerOptions } from '../rest/app.ts';
import { createObservedListener } from './observed-listener.ts';

// The package exports this file as `users-service/http`, so it has only what a host needs.
export type { RequestListenerOptions };

/**
 * The HTTP API as a plain `(request, response, next?)` listener, which can be mounted beside other routes:
 * `createServer(createRequestListener({ repository }))`. Calls `next`, if the host passes it, for an unknown path.
 * Throws when an option is wrong or the public folder cannot be read.
 */
export function createRequestListener(options: RequestListenerOptions): RequestListener {
  return createObservedListener(options).listener;
}
