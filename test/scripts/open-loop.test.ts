import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { offer } from '../../scripts/harness/offer.ts';
import { listen } from '../support/listen.ts';

const skip = !existsSync('/proc') && 'no /proc';

test('the load generator charges a pause to all requests that are due meanwhile', { skip }, async (t) => {
  const measureMs = 200;
  let responses = 0;
  const server = createServer((_request, response) => {
    responses += 1;
    // The pause ends after the measurement.
    setTimeout(() => response.end('{}'), responses === 1 ? 2 * measureMs : 0);
  });
  const { http } = await listen(t, server);
  const report = await offer({
    port: Number(new URL(http).port),
    pid: process.pid,
    connections: 1,
    waits: true,
    rate: 100,
    users: 1,
    writesInTen: 0,
    warmUpMs: 0,
    measureMs,
  });
  const { offered, accepted, unsent, failed } = report;
  assert.ok(offered > 0);
  assert.deepEqual({ accepted, unsent, failed }, { accepted: offered, unsent: 0, failed: 0 });
});
