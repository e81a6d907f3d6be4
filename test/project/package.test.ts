import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const dependencies = ['@grpc', 'google-protobuf', 'grpc-health-check', 'pg'];

interface PackedFile {
  readonly path: string;
}

describe('the package', () => {
  let folder: string;
  let files: readonly string[];
  let project: string;

  /** Runs a script in an empty project that has the package installed; resolves to what it prints. */
  const script = async (source: string, type: 'module' | 'commonjs'): Promise<string> => {
    const { stdout } = await run(process.execPath, [`--input-type=${type}`, '--eval', source], {
      cwd: project,
    });
    return stdout.trim();
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'package-'));
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root });
    // What the build prints comes first; npm's report is a list of one package or an object by its name.
    const report: unknown = JSON.parse(stdout.slice(stdout.search(/^[[{]/m)));
    const [packed] = Object.values(report as Record<string, { filename: string; files: PackedFile[] }>);
    assert.ok(packed);
    files = packed.files.map((file) => file.path);
    project = join(folder, 'project');
    const modules = join(project, 'node_modules');
    await mkdir(modules, { recursive: true });
    await run('tar', ['-xzf', join(folder, packed.filename), '-C', folder]);
    await run('mv', [join(folder, 'package'), join(modules, 'users-service')]);
    for (const name of dependencies) await symlink(join(root, 'node_modules', name), join(modules, name));
  });
  after(() => rm(folder, { recursive: true }));

  it('holds what is needed and nothing else', () => {
    const folders = new Set(files.map((file) => file.split('/')[0]));
    assert.deepEqual([...folders].sort(), [
      'LICENSE',
      'README.md',
      'dist',
      'generated',
      'package.json',
      'proto',
      'public',
    ]);
    assert.deepEqual(
      files.filter((file) => /\.test\.|\.tsx?$/.test(file) && !file.endsWith('.d.ts')),
      [],
    );
  });

  it('declares only the public functions of its HTTP API', async () => {
    const declarations = join(project, 'node_modules/users-service/dist/rest/app.d.ts');
    const functions = (await readFile(declarations, 'utf8')).matchAll(/export declare function (\w+)/g);
    assert.deepEqual(
      [...functions].map(([, name]) => name),
      ['createRequestListener'],
    );
  });

  it('has every export', async () => {
    const source = `
      const names = ['', '/http', '/grpc', '/memory', '/sqlite', '/postgres', '/conformance'];
      for (const name of names) console.log(Object.keys(await import('users-service' + name)).sort().join());
    `;
    assert.deepEqual((await script(source, 'module')).split('\n'), [
      'DomainError,addUsersService,createFetchHandler,createRequestListener,createService,errorKinds,openStore',
      'createHttpApi,createRequestListener,routes',
      'addUsersService,createGrpcApp',
      'createMemoryStore',
      'openSqliteStore',
      'openPostgresStore',
      'testRepository,testTransfer',
    ]);
  });

  for (const [type, load] of [
    ['module', "await import('users-service')"],
    ['commonjs', "require('users-service')"],
  ] as const) {
    it(`runs when it is loaded as ${type}`, async () => {
      const source = `
        (async () => {
          const { createService } = ${load};
          const service = createService({ database: 'sqlite:./users.db', port: 0, grpcPort: 0 });
          const { http } = await service.listen();
          const headers = { 'content-type': 'application/json' };
          const answer = await fetch(http + '/users', { method: 'POST', headers, body: '{"name":"Ada"}' });
          console.log(answer.status, (await fetch(http + '/')).status);
          await service.close();
        })();
      `;
      assert.equal(await script(source, type), '201 200');
    });
  }

  const lean: readonly (readonly [what: string, source: string])[] = [
    ['HTTP alone', "await import('users-service/http')"],
    ['the memory store', "await import('users-service/memory')"],
    ['importing all', "await import('users-service/memory'); await import('users-service/http')"],
  ];
  for (const [what, source] of lean) {
    it(`${what} loads neither gRPC, nor SQLite, nor PostgreSQL`, async () => {
      const check = `
        import { createRequire } from 'node:module';
        ${source};
        const loaded = [...Object.keys(createRequire(import.meta.url).cache), ...process.moduleLoadList];
        console.log(loaded.filter((name) => /grpc-js|protobuf|sqlite|node_modules.pg/.test(name)).join());
      `;
      assert.equal(await script(check, 'module'), '');
    });
  }

  it('is a command', async () => {
    const bin = join(project, 'node_modules', 'users-service', 'dist', 'main.js');
    const { stdout } = await run(process.execPath, [bin, '--help']);
    assert.match(stdout, /^users-service/);
    assert.deepEqual((await readdir(project)).includes('data'), false, 'asking for help makes nothing');
  });
});
