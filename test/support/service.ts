import assert from 'node:assert/strict';
import { createService, type Service, type ServiceOptions } from '../../src/service/service.ts';
import type { FailureEvent, ServiceEvent } from '../../src/telemetry/events.ts';

export interface RunningService {
  readonly service: Service;
  /** The base address, without a trailing slash. */
  readonly http: string;
  readonly port: number;
  /** `host:port`, or empty if the gRPC API is off. */
  readonly grpc: string;
  readonly events: readonly ServiceEvent[];
  readonly failures: () => readonly FailureEvent[];
}

export interface StartOptions extends ServiceOptions {
  /** Whether the test expects failures. Otherwise a reported failure fails the test. */
  readonly expectFailures?: boolean;
}

/** Starts a service in this process on free ports with an empty memory store. Closes it after the test. */
export async function startService(
  t: { after(close: () => void | Promise<void>): void },
  options: StartOptions = {},
): Promise<RunningService> {
  const { expectFailures = false, ...serviceOptions } = options;
  const events: ServiceEvent[] = [];
  const failures = () => events.filter((event) => event.type === 'failure');
  const service = createService({
    port: 0,
    grpcPort: false,
    // Clients of tests do not reconnect, so waiting for them would only slow down the tests.
    drainIdleMs: 0,
    // Raw requests of tests use any host name. hosts.test.ts tests the host names.
    allowedHosts: ['*'],
    ...(options.repository === undefined && { database: 'memory:' }),
    ...serviceOptions,
    observe: (event) => {
      events.push(event);
      options.observe?.(event);
    },
  });
  const { http, grpc = '' } = await service.listen();
  t.after(async () => {
    await service.close({ timeoutMs: 1_000 });
    if (!expectFailures) assert.deepEqual(failures(), [], 'the service reported an unexpected failure');
  });
  return { service, http, port: Number(new URL(http).port), grpc, events, failures };
}
