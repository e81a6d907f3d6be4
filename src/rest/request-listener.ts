import type { RequestListener } from '../http/listener.ts';
import { meteredObserve } from '../telemetry/metered.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { createHttpFace, type RequestListenerOptions } from './app.ts';

export type { RequestListenerOptions };

/**
 * The HTTP face as a plain `(request, response, next?)` listener, to be mounted beside other routes:
 * `createServer(createRequestListener({ repository }))`. What it does not know goes to `next` where
 * the host gives one. Throws when an option is wrong or the public folder cannot be read.
 */
export function createRequestListener(options: RequestListenerOptions): RequestListener {
  const metrics = new Metrics();
  const face = createHttpFace(options, {
    observe: meteredObserve(metrics, options.observe),
    refusal: () => undefined,
    renderMetrics: () => metrics.render({ http: face.inFlight }),
  });
  return face.listener;
}
