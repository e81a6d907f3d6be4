import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runTool } from '../support/tool.ts';

const deploy = fileURLToPath(new URL('../../scripts/deploy', import.meta.url));
const python = process.env['PYTHON'] ?? 'python3';
const load =
  'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], encoding="utf-8")))))';
const loaded = await runTool(python, ['-c', load, join(deploy, 'kubernetes.yaml')]);
const skip = /No module named|not found|ENOENT/.test(loaded.stderr) || loaded.code === -1;

/** Keys that an object may have, with the shape of their values. `any` values are not checked further. */
type Shape = 'any' | readonly [Shape] | { readonly [key: string]: Shape };

const metadata: Shape = { name: 'any', labels: 'any' };
const selector: Shape = { matchLabels: 'any' };
const probe: Shape = {
  httpGet: { path: 'any', port: 'any' },
  periodSeconds: 'any',
  timeoutSeconds: 'any',
  failureThreshold: 'any',
};
const env: Shape = {
  name: 'any',
  value: 'any',
  valueFrom: { secretKeyRef: { name: 'any', key: 'any' } },
};
const container: Shape = {
  name: 'any',
  image: 'any',
  ports: [{ name: 'any', containerPort: 'any' }],
  env: [env],
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  resources: { requests: { cpu: 'any', memory: 'any' }, limits: { memory: 'any' } },
  securityContext: {
    allowPrivilegeEscalation: 'any',
    readOnlyRootFilesystem: 'any',
    capabilities: { drop: 'any' },
  },
  volumeMounts: [{ name: 'any', mountPath: 'any' }],
};
const pod: Shape = {
  automountServiceAccountToken: 'any',
  enableServiceLinks: 'any',
  shareProcessNamespace: 'any',
  terminationGracePeriodSeconds: 'any',
  securityContext: {
    runAsNonRoot: 'any',
    runAsUser: 'any',
    runAsGroup: 'any',
    fsGroup: 'any',
    seccompProfile: { type: 'any' },
  },
  topologySpreadConstraints: [
    { maxSkew: 'any', topologyKey: 'any', whenUnsatisfiable: 'any', labelSelector: selector },
  ],
  containers: [container],
  volumes: [{ name: 'any', emptyDir: 'any' }],
};
/** A part of the API of Kubernetes 1.27 and newer, by kind. */
const shapes: Readonly<Record<string, { apiVersion: string; spec: Shape }>> = {
  Service: {
    apiVersion: 'v1',
    spec: {
      selector: 'any',
      ports: [{ name: 'any', port: 'any', targetPort: 'any', appProtocol: 'any' }],
    },
  },
  PodDisruptionBudget: {
    apiVersion: 'policy/v1',
    spec: { maxUnavailable: 'any', unhealthyPodEvictionPolicy: 'any', selector },
  },
  Deployment: {
    apiVersion: 'apps/v1',
    spec: {
      replicas: 'any',
      selector,
      strategy: { rollingUpdate: { maxSurge: 'any', maxUnavailable: 'any' } },
      template: { metadata: { labels: 'any' }, spec: pod },
    },
  },
};

/** The paths of the keys of a value that its shape does not have. */
function unknownKeys(value: unknown, shape: Shape, path: string): string[] {
  if (shape === 'any') return [];
  if (isList(shape)) {
    const items: unknown[] = Array.isArray(value) ? value : [];
    return items.length > 0 ? items.flatMap((item) => unknownKeys(item, shape[0], path)) : [path];
  }
  return Object.entries(Object(value)).flatMap(([key, part]) => {
    const inner = shape[key];
    return inner === undefined ? [`${path}.${key}`] : unknownKeys(part, inner, `${path}.${key}`);
  });
}

function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}

interface Secret {
  readonly secretKeyRef: { readonly name: string; readonly key: string };
}

describe('the manifests for Kubernetes', { skip: skip && `${python} has no yaml; set PYTHON` }, () => {
  const documents: { kind: string; apiVersion: string }[] = skip ? [] : JSON.parse(loaded.stdout);

  /** The value at a path, such as `spec.replicas`, in the document of a kind. */
  function at(kind: string, path: string): unknown {
    const document: unknown = documents.find((one) => one.kind === kind);
    return path.split('.').reduce((value, key) => Object(value)[key], document);
  }
  const ofPod = (path: string) => at('Deployment', `spec.template.spec.${path}`);
  const ofContainer = (path: string) => ofPod(`containers.0.${path}`);
  /** How long a probe may fail before it counts. */
  const secondsOf = (probe: string) =>
    Number(ofContainer(`${probe}.periodSeconds`)) * Number(ofContainer(`${probe}.failureThreshold`));
  const environment = () => ofContainer('env') as { name: string; value?: string; valueFrom?: Secret }[];

  it('are YAML of known kinds, without keys that are unknown to Kubernetes', () => {
    assert.deepEqual(documents.map(({ kind }) => kind).sort(), Object.keys(shapes).sort());
    for (const { kind, ...document } of documents) {
      const { apiVersion = '', spec = 'any' } = shapes[kind] ?? {};
      assert.equal(document.apiVersion, apiVersion);
      assert.deepEqual(unknownKeys(document, { apiVersion: 'any', metadata, spec }, kind), []);
    }
  });

  it('select the same copies, which have the ports of the services', () => {
    const labels = at('Deployment', 'spec.template.metadata.labels');
    assert.ok(labels);
    assert.deepEqual(at('Deployment', 'spec.selector.matchLabels'), labels);
    assert.deepEqual(at('PodDisruptionBudget', 'spec.selector.matchLabels'), labels);
    assert.deepEqual(at('Service', 'spec.selector'), labels);
    const names = (ofContainer('ports') as { name: string }[]).map(({ name }) => name);
    const asked = ['startup', 'liveness', 'readiness'].map((probe) =>
      ofContainer(`${probe}Probe.httpGet.port`),
    );
    const targets = (at('Service', 'spec.ports') as { targetPort: string }[]).map((port) => port.targetPort);
    for (const name of [...asked, ...targets]) assert.ok(names.includes(String(name)), String(name));
  });

  it('keep copies running while others stop', () => {
    const most = Number(at('PodDisruptionBudget', 'spec.maxUnavailable'));
    assert.ok(most < Number(at('Deployment', 'spec.replicas')));
    assert.equal(at('Deployment', 'spec.strategy.rollingUpdate.maxUnavailable'), 0);
  });

  it('let a node be drained also with a single copy, and while no copy is ready', () => {
    assert.ok(Number(at('PodDisruptionBudget', 'spec.maxUnavailable')) > 0);
    assert.equal(at('PodDisruptionBudget', 'spec.unhealthyPodEvictionPolicy'), 'AlwaysAllow');
  });

  it('remove a stopping copy from the load balancer before it stops serving, and give it time to drain', () => {
    const seconds = (variable: string) =>
      Number(environment().find(({ name }) => name === variable)?.value) / 1_000;
    assert.ok(secondsOf('readinessProbe') < seconds('DRAIN_DELAY_MS'));
    const grace = Number(ofPod('terminationGracePeriodSeconds'));
    assert.ok(seconds('DRAIN_DELAY_MS') + seconds('DRAIN_TIMEOUT_MS') < grace);
    assert.equal(ofContainer('readinessProbe.httpGet.path'), '/health/ready');
    for (const probe of ['startupProbe', 'livenessProbe']) {
      const path = ofContainer(`${probe}.httpGet.path`);
      assert.equal(path, '/health', 'a database failure must not restart copies');
    }
  });

  it('give a migration an hour before the startup probe ends it', () =>
    assert.ok(secondsOf('startupProbe') >= 3_600));

  it('set no variables for other services, such as GRPC_PORT for one called grpc', () =>
    assert.equal(ofPod('enableServiceLinks'), false));

  it('do not run the service as process 1, for which a SIGTERM during the start is lost', () =>
    assert.equal(ofPod('shareProcessNamespace'), true));

  it('run as a user who is not root, with the secret that README.md creates', () => {
    assert.ok(
      ofPod('securityContext.runAsNonRoot') === true && Number(ofPod('securityContext.runAsUser')) > 0,
    );
    const keys = environment().flatMap(({ valueFrom }) => (valueFrom ? [valueFrom.secretKeyRef] : []));
    const page = readFileSync(join(deploy, 'README.md'), 'utf8');
    const [, secret] = /kubectl create secret generic (\S+)/.exec(page) ?? [];
    const literals = [...page.matchAll(/--from-literal=([\w-]+)=/g)].map(([, name]) => name);
    const found = keys.map(({ name, key }) => [name, key]).sort();
    assert.deepEqual(found, literals.map((literal) => [secret, literal]).sort());
  });
});
