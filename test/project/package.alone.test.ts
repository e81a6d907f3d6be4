import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryFolder } from '../support/temporary.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
/** The entries of the package, each with the types that it exports, which a test of values cannot see. */
const exportedTypes = {
  'users-service': `
    Addresses, Answer, AnyQuery, AuthMode, CallOptions, Change, ChangeFeed, ChangeOptions, ChangePage,
    ChangeQuery, ChangeType, CloseOptions, Collection, CreateOptions, Created, ErrorKind, FailureEvent,
    FetchHandler, GrpcLimits, HttpTimeouts, IdempotencyKey, ListQuery, ListenerLimits, ListeningEvent,
    MetricsSnapshot, Observe, Origin, Page, PageStart, Patch, Position, Post, PostDraft, PostField,
    PostFilter, PostPatch, PostQuery, RecordKind, Records, RefusedEvent, Repository, RequestEvent,
    RequestListener, RequestListenerOptions, Service, ServiceEvent, ServiceOptions, Sort, SortKey,
    StartOption, Store, StoreOptions, StoreSummary, Stored, StoredPost, StoredUser, TlsOptions, User,
    UserDraft, UserField, UserFilter, UserPatch, UserQuery, UsersServiceOptions`,
  'users-service/http': 'RequestListenerOptions',
  'users-service/grpc': 'GrpcLimits, UsersServiceOptions',
  'users-service/memory': 'MemoryStoreOptions',
  'users-service/sqlite': 'SqliteStoreOptions',
  'users-service/postgres': 'PostgresStoreOptions',
  'users-service/conformance': 'OpenOptions, OpenRepository, RepositoryTraits',
};
const entries = Object.keys(exportedTypes);
const dependencies = ['@grpc', 'google-protobuf', 'grpc-health-check', 'pg'];

interface Packed {
  readonly filename: string;
  readonly integrity: string;
  readonly files: readonly { readonly path: string }[];
}

interface Component {
  readonly name: string;
  readonly version: string;
  readonly hashes?: readonly unknown[];
  readonly licenses?: readonly unknown[];
}

/** Packs the checkout in one folder into another. */
async function pack(checkout: string, folder: string): Promise<Packed> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: checkout });
  // The build prints first. The report of npm is a list of one package, or an object by its name.
  const report: unknown = JSON.parse(stdout.slice(stdout.search(/^[[{]/m)));
  const [packed] = Object.values(report as Record<string, Packed>);
  assert.ok(packed);
  return packed;
}

it('the SBOM command of the documentation lists each runtime dependency from only the lock file', async () => {
  const page = await readFile(join(root, 'scripts/deploy/README.md'), 'utf8');
  const [, script = ''] = /^```sh\n([^`]*npm sbom [^`]*)```$/m.exec(page) ?? [];
  const folder = temporaryFolder();
  for (const name of ['package.json', 'package-lock.json']) await cp(join(root, name), join(folder, name));
  // Without a cache, all data must come from the lock file.
  const env = { ...process.env, npm_config_offline: 'true', npm_config_cache: join(folder, 'cache') };
  await run('bash', ['-ec', script], { cwd: folder, env });
  const sbom = await readFile(join(folder, 'sbom', 'sbom.json'), 'utf8');
  const { components }: { components: readonly Component[] } = JSON.parse(sbom);
  const lock: { packages: Record<string, { version: string; dev?: boolean }> } = JSON.parse(
    await readFile(join(root, 'package-lock.json'), 'utf8'),
  );
  const expected = Object.entries(lock.packages).flatMap(([path, { version, dev }]) =>
    path === '' || dev === true ? [] : [`${path.replace(/^.*node_modules\//, '')}@${version}`],
  );
  // Some packages are installed twice, and some releases of npm list those twice.
  const listed = new Set(components.map((one) => `${one.name}@${one.version}`));
  assert.deepEqual([...listed].sort(), [...new Set(expected)].sort());
  for (const { name, hashes = [], licenses = [] } of components) {
    assert.deepEqual([name, hashes.length, licenses.length], [name, 1, 1]);
  }
});

describe('the package', () => {
  let folder: string;
  let packed: Packed;
  let files: readonly string[];
  let project: string;

  /** Runs a script in an empty project with the package installed, and resolves to its output. */
  const script = async (source: string, type: 'module' | 'commonjs'): Promise<string> => {
    const { stdout } = await run(process.execPath, [`--input-type=${type}`, '--eval', source], {
      cwd: project,
    });
    return stdout.trim();
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'package-'));
    packed = await pack(root, folder);
    files = packed.files.map((file) => file.path);
    project = join(folder, 'project');
    const modules = join(project, 'node_modules');
    await mkdir(modules, { recursive: true });
    await run('tar', ['-xzf', join(folder, packed.filename), '-C', folder]);
    await run('mv', [join(folder, 'package'), join(modules, 'users-service')]);
    for (const name of dependencies) await symlink(join(root, 'node_modules', name), join(modules, name));
  });
  after(() => rm(folder, { recursive: true }));

  it('contains all needed files and no others', () => {
    const folders = new Set(files.map((file) => file.split('/')[0]));
    assert.deepEqual([...folders].sort(), [
      '.github',
      'LICENSE',
      'README.md',
      'dist',
      'generated',
      'package.json',
      'proto',
      'public',
      'scripts',
      'src',
    ]);
    const wrong = files.filter((file) => /\.test\.|\.tsx?$/.test(file) && !file.endsWith('.d.ts'));
    assert.deepEqual(wrong, []);
  });

  it('contains all pages that its README links, except those about the development of the service', async () => {
    const readme = await readFile(join(root, 'README.md'), 'utf8');
    const links = [...readme.matchAll(/\]\(([\w./-]+)/g)].map(([, path]) => path ?? '');
    const missing = links.filter((path) => !files.includes(path));
    assert.deepEqual(missing, ['scripts/bench/README.md', 'test/README.md', 'scripts/README.md']);
  });

  it('has the same digest when another checkout with remains of an earlier build is packed', async () => {
    const checkout = join(folder, 'checkout');
    const modules = join(checkout, 'node_modules');
    const skipped = ['.git', 'dist', 'data', 'test'].map((name) => join(root, name));
    const isCopied = (path: string) => basename(path) !== 'node_modules' && !skipped.includes(path);
    await cp(root, checkout, { recursive: true, filter: isCopied });
    await symlink(join(root, 'node_modules'), modules);
    await mkdir(join(checkout, 'dist'));
    await writeFile(join(checkout, 'dist', 'removed.js'), 'from an earlier build');
    const again = await pack(checkout, checkout);
    assert.equal(again.integrity, packed.integrity);
  });

  it('exports all public types, and compiles, as the examples do, in a project with strict options', async () => {
    const sources = Object.entries(exportedTypes).map(
      ([entry, names]) => `import type { ${names} } from '${entry}';`,
    );
    for (const page of ['README.md', 'src/embedding.md']) {
      const text = await readFile(join(root, page), 'utf8');
      sources.push(...[...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code));
    }
    const paths = sources.map((_, index) => join(project, `example-${index}.mts`));
    for (const [index, path] of paths.entries()) await writeFile(path, `${sources[index]}\nexport {};\n`);
    // What the examples expect of the application around them.
    const application = join(project, 'application.d.mts');
    await writeFile(
      application,
      `import type { Repository } from 'users-service';
      declare global {
        const createService: typeof import('users-service').createService;
        const repository: Repository;
        const MyStore: new (options: { now?: () => number; changesKept?: number }) => Repository;
      }`,
    );
    const strict = '--strict --exactOptionalPropertyTypes --skipLibCheck false';
    const options = `--ignoreConfig --noEmit ${strict} --target es2024 --module node16`;
    const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
    const args = [...options.split(' '), ...types, application, ...paths];
    await run(join(root, 'node_modules/.bin/tsc'), args).catch(({ stdout }: { stdout: string }) =>
      assert.fail(stdout),
    );
  });

  it('names its entry also for tools that do not read its exports, such as TypeScript 5 with CommonJS', async () => {
    const text = await readFile(join(project, 'node_modules/users-service/package.json'), 'utf8');
    const { main, types, exports } = JSON.parse(text);
    assert.deepEqual({ types, default: main }, exports['.']);
  });

  it('exports all public functions and no others', async () => {
    const source = `
      for (const entry of ${JSON.stringify(entries)}) {
        console.log(Object.keys(await import(entry)).sort().join());
      }
    `;
    assert.deepEqual((await script(source, 'module')).split('\n'), [
      'ChangesGone,DomainError,StartError,addUsersService,createFetchHandler,createRequestListener,createService,errorKinds,idempotencyTtlMs,openStore',
      'createRequestListener',
      'addUsersService',
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

  it('loads neither gRPC, nor SQLite, nor PostgreSQL for HTTP and the memory store', async () => {
    const check = `
      import { createRequire } from 'node:module';
      await import('users-service/memory');
      await import('users-service/http');
      const loaded = [...Object.keys(createRequire(import.meta.url).cache), ...process.moduleLoadList];
      console.log(loaded.filter((name) => /grpc-js|protobuf|sqlite|node_modules.pg/.test(name)).join());
    `;
    assert.equal(await script(check, 'module'), '');
  });

  it('can be run as a command', async () => {
    const bin = join(project, 'node_modules', 'users-service', 'dist', 'main.js');
    const { stdout } = await run(process.execPath, [bin, '--help']);
    assert.match(stdout, /^users-service/);
    assert.deepEqual((await readdir(project)).includes('data'), false, '--help must not create a database');
  });
});
