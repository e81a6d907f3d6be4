import { publish } from './diagnostics.ts';
import type { Observe } from './events.ts';
import type { Metrics } from './metrics.ts';

/** Every event counts in the metrics and is published before anybody else sees it. */
export function meteredObserve(metrics: Metrics, observe: Observe | undefined): Observe {
  const publishing = publishingObserve(observe);
  return (event) => {
    metrics.observe(event);
    publishing(event);
  };
}

/** Every event is published before anybody else sees it. */
export function publishingObserve(observe: Observe | undefined): Observe {
  return (event) => {
    publish(event);
    observe?.(event);
  };
}
