import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Metrics, renderMetrics } from '../../src/telemetry/metrics.ts';
import { startProcess } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { parseMetrics } from '../support/prometheus.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { hasTool, runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const deploy = join(root, 'scripts/deploy');
const alerts = readFileSync(join(deploy, 'alerts.yaml'), 'utf8');

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly refId: string; readonly expr: string }[];
}

const dashboard: { panels: readonly Panel[]; templating: { list: readonly { name: string }[] } } = JSON.parse(
  readFileSync(join(deploy, 'dashboard.json'), 'utf8'),
);
const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

const metricName = /\b(?:users_service|process)_\w+/g;

const skip = !hasTool('promtool') && 'promtool is not installed (Debian: prometheus)';

// The labels that Prometheus adds when it scrapes.
const labelsOfScrape = ['job', 'instance'];

/** The labels of each metric of a service with workers, keys, rejected connections, standbys and TLS. */
async function renderedLabels(t: Parameters<typeof startProcess>[0]): Promise<Map<string, Set<string>>> {
  const folder = temporaryFolder();
  const args = ['--workers', '2', '--database', `sqlite:${folder}/users.db`, '--api-key', 'app:read=secret'];
  const { http } = await startProcess(t, args);
  for (const path of ['/users', '/users/1', '/users/1/posts', '/private']) {
    await (await fetch(http + path, { headers: { 'x-api-key': 'secret' } })).text();
  }
  const socket = connect(Number(new URL(http).port), '127.0.0.1').resume();
  socket.end('this is no HTTP\r\n\r\n');
  await once(socket, 'close');
  // A busy worker may report late, and is then missing in a response.
  let families = new Map() as ReturnType<typeof parseMetrics>;
  await until(async () => {
    families = parseMetrics(await (await fetch(`${http}/metrics`)).text());
    const counters = ['users_service_key_requests_total', 'users_service_refused_total'];
    return counters.every((name) => families.get(name)?.samples.length);
  }, 'counters of all requests');
  const ofStandbys = new Metrics();
  ofStandbys.standbyRead({ host: 'a', outcome: 'answered', waitMs: 0, lagBytes: 0 });
  const others = parseMetrics(renderMetrics(ofStandbys.snapshot({ certificateEnd: 1 })));
  const samples = [...families.values(), ...others.values()].flatMap((family) => family.samples);
  return new Map(
    [...Map.groupBy(samples, ({ name }) => name)].map(([name, all]) => [
      name,
      new Set(all.flatMap(({ labels }) => Object.keys(labels))),
    ]),
  );
}

test('the dashboard and the alerts use only metrics and labels of the service', async (t) => {
  const rendered = await renderedLabels(t);
  const texts = [...expressions, ...alerts.split(/^ {6}- alert: /m).slice(1)];
  const unknown: string[] = [];
  for (const text of texts) {
    const names = [...text.matchAll(metricName)].map(([name]) => name);
    unknown.push(...names.filter((name) => !rendered.has(name)));
    const known = new Set([...names.flatMap((name) => [...(rendered.get(name) ?? [])]), ...labelsOfScrape]);
    const matched = [...text.matchAll(/(\w+)(?:=|!=|=~|!~)"/g)].map(([, label = '']) => label);
    const grouped = [...text.matchAll(/\bby \(([\w, ]+)\)/g)].flatMap(([, list = '']) => list.split(', '));
    const shown = [...text.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
    unknown.push(...[...matched, ...grouped, ...shown].filter((label) => !known.has(label)));
  }
  assert.deepEqual(unknown, []);
  const used = new Set([...texts.join('\n').matchAll(metricName)].map(([name]) => name));
  const missing = [...rendered.keys()].filter((name) => !used.has(name));
  assert.deepEqual(missing, [], 'the dashboard shows every metric');
});

test('the panels of the dashboard have different ids and do not overlap', () => {
  const { panels, templating } = dashboard;
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    assert.ok(x >= 0 && x + w <= 24);
    return Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`);
  });
  assert.equal(new Set(cells).size, cells.length);
  const variables = [...templating.list.map(({ name }) => name), '__rate_interval'];
  for (const [, name = ''] of JSON.stringify(dashboard).matchAll(/\$\{?(\w+)/g))
    assert.ok(variables.includes(name), name);
});

test('promtool accepts the alerts, and they fire as their test describes', { skip }, async () => {
  const checked = await runTool('promtool', ['check', 'rules', join(deploy, 'alerts.yaml')]);
  assert.equal(checked.code, 0, checked.stderr);
  assert.match(checked.stdout, /SUCCESS: 11 rules found/);
  const tested = await runTool('promtool', ['test', 'rules', join(root, 'test/project/alerts.test.yaml')]);
  assert.equal(tested.code, 0, tested.stdout + tested.stderr);
});

test('promtool accepts the expressions of the dashboard', { skip }, async () => {
  const folder = temporaryFolder();
  const rules = expressions.map((expr, i) => ({
    record: `panel:${i}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', 'users-service'),
  }));
  // JSON is YAML too.
  const file = join(folder, 'rules.yaml');
  await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  const checked = await runTool('promtool', ['check', 'rules', file]);
  assert.equal(checked.code, 0, checked.stderr);
});
