import type { Observe } from '../observer.ts';
import { publish } from './diagnostics.ts';
import type { Metrics } from './metrics.ts';

/** Every event counts in the metrics and is published before anybody else sees it. */
export function meteredObserve(metrics: Metrics, observe: Observe | undefined): Observe {
  return (event) => {
    metrics.observe(event);
    publish(event);
    observe?.(event);
  };
}
