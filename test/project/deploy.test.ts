import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeSlackMs } from '../../src/commands/serve.ts';
import { parseConfig, variableOf } from '../../src/commands/settings.ts';
import { optionRows } from '../../src/config.ts';
import { readyTimeoutMs } from '../../src/rest/routes.ts';
import { createCertificate } from '../support/certificate.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { hasTool, runTool } from '../support/tool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string) => readFileSync(join(root, 'scripts/deploy', name), 'utf8');
const unit = read('users-service.service');
const container = read('Containerfile');
const manifests = read('kubernetes.yaml');
const variables = new Set<string>(optionRows.map(([flag]) => variableOf(flag)));
// Variables of Node.js and the system, not of the service.
const others = ['NODE_ENV', 'HOME'];

/** The service's variables and their values, in each of the three notations. */
const environments: Readonly<Record<string, Record<string, string>>> = {
  'the systemd unit': pairs(unit.matchAll(/^Environment=(\w+)=(.*)$/gm)),
  'the container file': pairs(container.matchAll(/^(?:ENV| +)\s*([A-Z_]+)=(\S+)/gm)),
  Kubernetes: pairs(manifests.matchAll(/\{ name: ([A-Z_]+), value: "?([^"}]*?)"? \}/g)),
};

function pairs(matches: Iterable<RegExpMatchArray>): Record<string, string> {
  return Object.fromEntries(
    [...matches]
      .map(([, name = '', value = '']) => [name, value])
      .filter(([name]) => !others.includes(name ?? '')),
  );
}

for (const [name, env] of Object.entries(environments)) {
  test(`the variables of ${name} are options of the service, with valid values`, () => {
    assert.ok(Object.keys(env).length > 0);
    const unknown = Object.keys(env).filter((variable) => !variables.has(variable));
    assert.deepEqual(unknown, []);
    // Kubernetes takes its keys from a secret.
    parseConfig({}, { API_KEY: 'a-key', ...env });
  });
}

test('systemd and Kubernetes wait longer than the stop of the service may take', () => {
  const stopMs = (env: Record<string, string> = {}) => {
    const { config } = parseConfig({}, { API_KEY: 'a-key', ...env });
    return config['drain-delay-ms'] + config['drain-timeout-ms'] + closeSlackMs;
  };
  const seconds = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1]) * 1_000;
  assert.ok(seconds(unit, /^TimeoutStopSec=(\d+)$/m) > stopMs(environments['the systemd unit']));
  assert.ok(seconds(manifests, /terminationGracePeriodSeconds: (\d+)/) > stopMs(environments['Kubernetes']));
});

test('Kubernetes and HAProxy wait long enough to learn why a copy is not ready', () => {
  const [, kubernetes] = /readinessProbe:\n(?: {12}.*\n)*? {12}timeoutSeconds: (\d+)/.exec(manifests) ?? [];
  const [, haproxy] = /timeout check (\d+)s\n/.exec(read('README.md')) ?? [];
  for (const seconds of [kubernetes, haproxy]) assert.ok(Number(seconds) * 1_000 > readyTimeoutMs);
});

test('HAProxy waits longer for clients and copies than the service waits for slow clients', () => {
  const { config } = parseConfig({}, {});
  const [, client, server] = /timeout client (\d+)s\n *timeout server (\d+)s\n/.exec(read('README.md')) ?? [];
  assert.ok(Number(client) * 1_000 > config['write-timeout-ms']);
  // A late request gets its 408 up to 5 s later.
  assert.ok(Number(server) * 1_000 > config['request-timeout-ms'] + 5_000);
});

test('nginx and HAProxy accept the headers of a list with the longest filters', async (t) => {
  const { http } = await startService(t);
  const body = JSON.stringify({ name: '😀'.repeat(200), role: 'a'.repeat(50) });
  const create = () =>
    fetch(`${http}/users`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  for (let count = 0; count < 3; count += 1) await create();
  const ids = Array.from({ length: 97 }, (_, index) => 2 ** 31 - 1 - index);
  const filters = new URLSearchParams({ ...JSON.parse(body), id: [1, 2, 3, ...ids].join() });
  const { headers } = await fetch(`${http}/users?${filters}&sort=role,name,id&limit=1&page=2`);
  assert.ok(Number(headers.get('link')?.length) > 15_000);
  const bytes = [...headers].reduce((sum, header) => sum + `${header.join(': ')}\r\n`.length, 0);
  const [, nginxKib] = /proxy_buffer_size (\d+)k;/.exec(read('README.md')) ?? [];
  const [, haproxyBytes] = /tune\.bufsize (\d+)\n/.exec(read('README.md')) ?? [];
  assert.ok(bytes < Number(nginxKib) * 1_024);
  // HAProxy keeps a kibibyte free to rewrite headers.
  assert.ok(bytes < Number(haproxyBytes) - 1_024);
});

test('the command that runs doctor has the limit on open files of the systemd unit', () => {
  const [limit = 'none'] = /^LimitNOFILE=\d+$/m.exec(unit) ?? [];
  assert.ok(read('README.md').includes(`--property=${limit} `));
});

test('systemd restarts the service after every end but that for an invalid option, without giving up', () => {
  const settings = [
    'StartLimitIntervalSec=0',
    'Restart=always',
    'OOMPolicy=continue',
    'RestartSec=1',
    'RestartPreventExitStatus=2',
  ];
  for (const line of settings) assert.ok(unit.split('\n').includes(line), line);
});

test('systemd keeps every line of the log, and takes a stop during the start for a success', () => {
  for (const line of ['LogRateLimitIntervalSec=0', 'SuccessExitStatus=143']) {
    assert.ok(unit.split('\n').includes(line), line);
  }
});

test('the container file copies existing files, and its user is not root', () => {
  const copied = [...container.matchAll(/^COPY (?!--)(.*) \S+$/gm)].flatMap(([, names = '']) =>
    names.split(' '),
  );
  assert.ok(copied.includes('src') && copied.includes('package-lock.json'));
  for (const name of copied) assert.ok(existsSync(join(root, name)), name);
  assert.match(container, /^USER 1000:1000$/m);
});

for (const tls of [undefined, createCertificate('users.example')]) {
  test(`the health check of the container works ${tls === undefined ? 'without' : 'with'} TLS`, async (t) => {
    const { service, port } = await startService(t, tls && { tls });
    const check = JSON.parse(/^ {2}CMD (.+)$/m.exec(container)?.[1] ?? '');
    assert.equal(check.shift(), 'node');
    const env = { ...process.env, PORT: String(port), ...(tls && { TLS_CERT: '/tls/tls.crt' }) };
    const run = async () => (await runTool(process.execPath, check, { env })).code;
    assert.equal(await run(), 0);
    await service.close();
    assert.equal(await run(), 1);
  });
}

test('the container file gives a migration an hour before its health check may fail', () => {
  assert.match(container, /^HEALTHCHECK .*--start-period=1h /m);
});

test('systemd accepts the unit and rates its exposure at most 3', async (t) => {
  if (!hasTool('systemd-analyze')) return t.skip('systemd-analyze is not installed');
  const folder = temporaryFolder();
  const file = join(folder, 'users-service.service');
  // The programs must exist where the unit is checked.
  await writeFile(
    file,
    unit.replaceAll('/usr/bin/node', process.execPath).replaceAll('/opt/users-service/', root),
  );
  const verified = await runTool('systemd-analyze', ['verify', '--man=no', file]);
  assert.equal(verified.code, 0, verified.stderr);
  assert.equal(verified.stderr, '');
  const rated = await runTool('systemd-analyze', ['security', '--offline=true', '--threshold=30', file]);
  assert.equal(rated.code, 0, rated.stdout);
});
