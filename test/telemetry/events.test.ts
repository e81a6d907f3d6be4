import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FailureEvent, fanOut, type ServiceEvent } from '../../src/telemetry/events.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const cause = new Error('the observer is broken');
const broken: readonly [how: string, observe: () => void][] = [
  [
    'throws',
    () => {
      throw cause;
    },
  ],
  ['rejects with', () => Promise.reject(cause)],
];
for (const [how, observe] of broken) {
  test(`an error that an observer ${how} does not propagate, and is reported as a failure`, async () => {
    const counted: ServiceEvent[] = [];
    fanOut(observe, (event) => counted.push(event))({ type: 'draining' });
    await undefined;
    const failure: FailureEvent = { type: 'failure', where: 'process', cause };
    assert.deepEqual(counted, [{ type: 'draining' }, failure]);
  });
}

test('a service continues to serve when its observer throws on every event', async (t) => {
  const { http } = await startService(t, {
    observe: () => {
      throw new Error('the observer is broken');
    },
  });
  for (let i = 0; i < 3; i += 1) assert.equal((await send(http, 'GET /health')).status, 200);
  const { text } = await send(http, 'GET /metrics');
  assert.match(
    text,
    /^users_service_requests_total\{face="http",method="GET",route="\/health",status="200"\} 3$/m,
  );
  assert.match(text, /^users_service_failures_total [1-9]/m);
});
