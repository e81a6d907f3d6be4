import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createService, type Service, type ServiceOptions } from '../../src/service.ts';
import type { FailureEvent, ServiceEvent } from '../../src/telemetry/events.ts';

export interface RunningService {
  readonly service: Service;
  /** Base address, without a slash at the end. */
  readonly http: string;
  readonly port: number;
  /** `host:port`, empty when the gRPC face is off. */
  readonly grpc: string;
  readonly events: readonly ServiceEvent[];
  readonly failures: () => readonly FailureEvent[];
}

export interface StartOptions extends ServiceOptions {
  /** Failures are what this test is about; otherwise one of them fails it. */
  readonly expectFailures?: boolean;
}

/** Starts a service in this process on free ports over an empty memory store, and ends it with the test. */
export async function startService(t: TestContext, options: StartOptions = {}): Promise<RunningService> {
  const { expectFailures = false, ...serviceOptions } = options;
  const events: ServiceEvent[] = [];
  const failures = () => events.filter((event) => event.type === 'failure');
  const service = createService({
    port: 0,
    grpcPort: false,
    // No test's clients come back: waiting for them would be most of the time of all tests.
    drainIdleMs: 0,
    // Raw requests of tests name any host; what is served by which name has tests of its own.
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
    if (!expectFailures) assert.deepEqual(failures(), [], 'the service reported no failure of its own');
  });
  return { service, http, port: Number(new URL(http).port), grpc, events, failures };
}
