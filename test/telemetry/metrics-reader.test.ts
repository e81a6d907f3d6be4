import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getUser, usersClient } from '../kit/grpc.ts';
import { send } from '../support/client.ts';
import { parseMetrics } from '../support/prometheus.ts';
import { startService } from '../support/service.ts';
import { runTool } from '../support/tool.ts';

const python = process.env['PYTHON'] ?? 'python3';
const script = `
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
print(json.dumps([[s.name, s.labels, s.value] for f in families(sys.argv[1]) for s in f.samples]))
`;
const hasReader = (await runTool(python, ['-c', 'import prometheus_client'])).code === 0;
const skip = hasReader ? false : `${python} has no prometheus_client; set PYTHON`;

test('the Prometheus client library parses /metrics with the same result as the parser of the tests', {
  skip,
}, async (t) => {
  const { http, grpc } = await startService(t, { grpcPort: 0, expectFailures: true });
  for (const line of ['GET /users', 'GET /users/1', 'GET /no', 'GET /boom', 'GET /']) await send(http, line);
  await getUser(usersClient(t, grpc), 1);
  const { text } = await send(http, 'GET /metrics');
  const { code, stdout, stderr } = await runTool(python, ['-c', script, text]);
  assert.equal(code, 0, stderr);
  const ours = [...parseMetrics(text).values()].flatMap(({ samples }) =>
    samples.map(({ name, labels, value }) => [name, labels, value]),
  );
  assert.ok(ours.length > 20);
  assert.deepEqual(JSON.parse(stdout), ours);
});
