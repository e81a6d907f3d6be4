import assert from 'node:assert/strict';
import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, link, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildImage } from '../kit/container.ts';
import { until } from '../kit/until.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const containerfile = await readFile(join(root, 'scripts/deploy/Containerfile'), 'utf8');
const mostMegabytes = 120;
const isRoot = process.getuid?.() === 0;

async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(
    files.map(async (file) => (await stat(join(file.parentPath, file.name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

test('the steps of the container file build a small image that runs without root, reports its health, and stops', {
  skip: process.platform === 'win32' && 'Windows has no users',
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'image-'));
  t.after(() => rm(folder, { recursive: true }));
  await chmod(folder, 0o755);
  // The base image brings Node.js. The user of the container must be able to run it.
  await mkdir(join(folder, 'bin'));
  const node = join(folder, 'bin', 'node');
  await link(process.execPath, node).catch(() => copyFile(process.execPath, node));
  const path = `${join(folder, 'bin')}:${process.env['PATH']}`;

  // Tests download nothing. The packages come from the cache that `npm ci` has filled. The image has its own modules.
  const own = { PATH: path, npm_config_offline: 'true', NODE_COMPILE_CACHE: undefined };
  const buildEnv = { ...process.env, ...own };
  let image: Awaited<ReturnType<typeof buildImage>>;
  try {
    image = await buildImage(containerfile, root, folder, buildEnv);
  } catch (error) {
    if (String(error).includes('ENOTCACHED')) return t.skip('the packages are not in the cache of npm');
    throw error;
  }
  const megabytes = (await bytesIn(image.folder)) / 1e6;
  t.diagnostic(`the image adds ${megabytes.toFixed(1)} MB to its base image`);
  assert.ok(megabytes < mostMegabytes, `${megabytes} MB`);

  const [uid, gid] = image.user.split(':').map(Number);
  assert.ok(uid !== undefined && uid > 0 && gid !== undefined && gid > 0);
  const data = image.env['DATABASE_URL']?.replace('sqlite:', `sqlite:${image.folder}`) ?? '';
  const optionsWith = (port: string): SpawnOptions => ({
    cwd: join(image.folder, image.workdir),
    ...(isRoot && { uid, gid }),
    env: {
      ...image.env,
      PATH: path,
      DATABASE_URL: data,
      HOST: '127.0.0.1',
      PORT: port,
      GRPC_PORT: '0',
    },
  });
  // At least those of the HTTP API and SQLite.
  const cache = await readdir(join(image.folder, 'home', 'node', '.cache'), { recursive: true });
  assert.ok(cache.length > 100, `only ${cache.length} compiled modules`);
  const [command = '', ...args] = image.entrypoint;
  const service = spawn(command, args, { ...optionsWith('0'), stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(service, 'exit');
  t.after(async () => {
    service.kill('SIGKILL');
    await exited;
  });
  assert.ok(service.stdout);
  const lines: Record<string, string>[] = [];
  createInterface({ input: service.stdout }).on('line', (line) => lines.push(JSON.parse(line)));
  await until(() => lines.length === 2, 'the service has printed two lines', 60_000);
  const shown = lines.map(({ event }) => event);
  assert.deepEqual(shown, ['created', 'listening']);
  const { http = '' } = lines[1] ?? {};
  const check = async () => {
    const [command = '', ...args] = image.healthCheck;
    const [code] = await once(spawn(command, args, optionsWith(new URL(http).port)), 'exit');
    return code;
  };
  const page = await fetch(`${http}/`);
  assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  assert.equal(await check(), 0, 'healthy');

  const database = await stat(join(image.folder, 'data', 'users.db'));
  assert.equal(database.mode & 0o777, 0o600);
  if (isRoot) assert.deepEqual([database.uid, database.gid], [uid, gid]);
  await rm(join(image.folder, 'data', 'users.db'));
  assert.equal((await fetch(`${http}/health/ready`)).status, 503);
  assert.equal(await check(), 0, 'healthy without its store too');
  service.kill('SIGTERM');
  assert.deepEqual(await exited, [0, null]);
  assert.equal(await check(), 1, 'the health check must fail after the stop');
});
