import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, symlinkSync, unlinkSync } from 'node:fs';
import promises, {
  appendFile,
  mkdir,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Handler } from '../../src/http/request.ts';
import { fileHandler, isSettled } from '../../src/http/static.ts';
import { listFiles } from '../../src/http/static-files.ts';
import type { FailureEvent, RequestEvent } from '../../src/telemetry/events.ts';
import type { RawResponse } from '../kit/raw.ts';
import { head, Wire } from '../kit/wire.ts';
import { startKit } from '../support/http-kit.ts';
import { mockBuiltin } from '../support/mock-builtin.ts';
import { noOpenFiles, openFilesIn } from '../support/open-files.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { checkForm } from './wire/table.ts';

const page = '<!doctype html><title>home</title>';
const script = 'console.log("héllo");\n'.repeat(20);
const modified = new Date('2020-01-02T03:04:05.678Z');
const long = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i % 251));

interface Site {
  readonly dir: string;
  readonly port: number;
  readonly failures: () => readonly FailureEvent[];
  readonly requests: () => readonly RequestEvent[];
  readonly get: (path: string, ...headers: readonly string[]) => Promise<RawResponse>;
  readonly ask: (line: string, ...headers: readonly string[]) => Promise<RawResponse>;
}

/** A service with a new public folder, which `prepare` may change before the start. */
async function startSite(t: TestContext, prepare?: (dir: string) => unknown): Promise<Site> {
  const outer = temporaryFolder();
  await writeFile(join(outer, 'secret.txt'), 'secret');
  const dir = join(outer, 'public');
  await mkdir(join(dir, 'docs'), { recursive: true });
  const files: Readonly<Record<string, string | Buffer>> = {
    'index.html': page,
    'docs/index.html': 'docs',
    'docs/guide.txt': 'guide',
    'app.js': script,
    'app.js.br': 'brotli',
    'app.js.gz': 'gzipped',
    'digits.txt': '0123456789',
    'empty.txt': '',
    'long.bin': long,
  };
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(dir, name), content);
    await utimes(join(dir, name), modified, modified);
  }
  await prepare?.(dir);
  const { port, failures, events } = await startService(t, { publicDir: dir, expectFailures: true });
  const requests = () => events.filter((event) => event.type === 'request');
  const ask = async (line: string, ...headers: readonly string[]) => {
    const wire = await Wire.open(t, port);
    if (line.startsWith('HEAD')) wire.expectHead();
    const response = await wire.write(head(line, ...headers)).next();
    wire.socket.destroy();
    return response;
  };
  return { dir, port, failures, requests, ask, get: (path, ...headers) => ask(`GET ${path}`, ...headers) };
}

const paths: readonly [path: string, type: string, body: string][] = [
  ['/', 'text/html; charset=utf-8', page],
  ['/index.html', 'text/html; charset=utf-8', page],
  ['/docs/', 'text/html; charset=utf-8', 'docs'],
  ['/docs/index.html', 'text/html; charset=utf-8', 'docs'],
  ['/docs/guide.txt', 'text/plain; charset=utf-8', 'guide'],
  ['/docs/guide.txt?v=1', 'text/plain; charset=utf-8', 'guide'],
  ['/docs/%67uide.txt', 'text/plain; charset=utf-8', 'guide'],
  ['/app.js', 'text/javascript; charset=utf-8', script],
  ['/app.js.br', 'application/octet-stream', 'brotli'],
  ['/empty.txt', 'text/plain; charset=utf-8', ''],
];

test('a file is served under its name, with headers for its type, length and version', async (t) => {
  const site = await startSite(t);
  for (const [path, type, body] of paths) {
    const got = await site.get(path);
    assert.equal(got.status, 200, path);
    assert.equal(got.body, body, path);
    assert.equal(got.headers['content-type'], type);
    assert.equal(got.headers['content-length'], String(Buffer.byteLength(body)));
    assert.equal(got.headers['last-modified'], 'Thu, 02 Jan 2020 03:04:05 GMT');
    assert.equal(got.headers['cache-control'], 'no-cache');
    assert.equal(got.headers['accept-ranges'], 'bytes');
    assert.equal(got.headers['x-content-type-options'], 'nosniff');
    assert.match(got.headers['etag'] ?? '', /^"[\w-]+"$/);
    const { headers: withoutBody, status } = await site.ask(`HEAD ${path}`);
    const { date: _d, 'x-request-id': _r, ...same } = got.headers;
    assert.equal(status, 200);
    assert.partialDeepStrictEqual(withoutBody, same, 'HEAD has the headers of GET');
  }
});

test('Last-Modified is never in the future, even if the time of the file is', async (t) => {
  const future = new Date(Date.now() + 86_400_000);
  const site = await startSite(t, (dir) => utimes(join(dir, 'app.js'), future, future));
  const { headers } = await site.get('/app.js');
  const [modified = '', date = ''] = [headers['last-modified'], headers['date']];
  assert.ok(Date.parse(modified) <= Date.parse(date), `${modified} is after ${date}`);
});

test('a long file is streamed completely', async (t) => {
  const site = await startSite(t);
  const wire = (await Wire.open(t, site.port)).write(head('GET /long.bin'));
  await wire.next();
  const { received } = wire;
  assert.ok(received.subarray(received.length - long.length).equals(long));
});

const others = ['/Index.html', '/index.html/', '/new.txt', '/public/index.html'];
const unknown = ['/docs', '/docs/guide', '/docs/guide.txt/', ...others];
for (const path of unknown) {
  test(`${path} is not a file and returns 404`, async (t) => {
    const site = await startSite(t);
    const got = await site.get(path);
    assert.equal(got.status, 404);
    checkForm(got, false);
  });
}

test('a file allows only GET, HEAD and OPTIONS, and lists them in Allow', async (t) => {
  const site = await startSite(t);
  const refused = await site.ask('DELETE /app.js');
  assert.deepEqual([refused.status, refused.headers['allow']], [405, 'GET, HEAD, OPTIONS']);
  const options = await site.ask('OPTIONS /app.js');
  assert.deepEqual([options.status, options.headers['allow']], [204, 'GET, HEAD, OPTIONS']);
});

test('a route of the API takes precedence over a file of the same name', async (t) => {
  const site = await startSite(t, async (dir) => {
    await writeFile(join(dir, 'health'), 'a file');
    await mkdir(join(dir, 'users'));
    await writeFile(join(dir, 'users/7'), 'a file');
  });
  assert.equal((await site.get('/health')).body, '{"ok":true}');
  assert.equal((await site.get('/users/7')).status, 404);
});

test('a file with special characters in its name is served under the encoded name', async (t) => {
  const names = [
    'a b',
    '50%',
    'a?b',
    'a#b',
    'a+b',
    'a\\b',
    'grün',
    '__proto__',
    '😀',
    'a&b=c',
    '{id}',
    '%2e',
  ];
  const site = await startSite(t, (dir) =>
    Promise.all(names.map((name) => writeFile(join(dir, name), name))),
  );
  for (const name of names) assert.equal((await site.get(`/${encodeURIComponent(name)}`)).body, name);
});

const etagOf = async (site: Site, path: string, ...headers: readonly string[]) =>
  (await site.get(path, ...headers)).headers['etag'] ?? '';

test('a conditional request for the version that the client has returns 304', async (t) => {
  const site = await startSite(t);
  const etag = await etagOf(site, '/digits.txt');
  for (const condition of [`If-None-Match: ${etag}`, 'If-Modified-Since: Thu, 02 Jan 2020 03:04:05 GMT']) {
    for (const method of ['GET', 'HEAD']) {
      const got = await site.ask(`${method} /digits.txt`, condition);
      assert.equal(got.status, 304);
      assert.equal(got.headers['etag'], etag);
      assert.equal(got.headers['content-type'], undefined);
    }
  }
  assert.equal((await site.get('/digits.txt', 'If-None-Match: "other"')).status, 200);
});

test('a failed If-Match or If-Unmodified-Since on a file returns 412', async (t) => {
  const site = await startSite(t);
  const refused = await site.get('/digits.txt', 'If-Match: "other"');
  assert.equal(refused.status, 412);
  checkForm(refused, false);
  const etag = await etagOf(site, '/digits.txt');
  assert.equal((await site.get('/digits.txt', `If-Match: ${etag}`)).status, 200);
});

const ranges: readonly [range: string, status: number, contentRange: string | undefined, body: string][] = [
  ['bytes=0-0', 206, 'bytes 0-0/10', '0'],
  ['bytes=2-4', 206, 'bytes 2-4/10', '234'],
  ['bytes=5-', 206, 'bytes 5-9/10', '56789'],
  ['bytes=-3', 206, 'bytes 7-9/10', '789'],
  ['bytes=0-99', 206, 'bytes 0-9/10', '0123456789'],
  ['bytes=0-0,2-4', 200, undefined, '0123456789'],
  ['bytes=a-b', 200, undefined, '0123456789'],
  ['items=0-1', 200, undefined, '0123456789'],
  [`bytes=${'0-,'.repeat(1_000)}0-`, 200, undefined, '0123456789'],
  ['bytes=10-', 416, 'bytes */10', '{"error":"the range lies outside the file"}'],
  ['bytes=-0', 416, 'bytes */10', '{"error":"the range lies outside the file"}'],
];

for (const [range, status, contentRange, body] of ranges) {
  test(`Range ${range.slice(0, 20)} returns ${status}`, async (t) => {
    const got = await (await startSite(t)).get('/digits.txt', `Range: ${range}`);
    assert.deepEqual([got.status, got.headers['content-range'], got.body], [status, contentRange, body]);
    checkForm(got, false);
  });
}

test('a long range is streamed', async (t) => {
  const site = await startSite(t);
  const wire = (await Wire.open(t, site.port)).write(head('GET /long.bin', 'Range: bytes=1000-200999'));
  assert.equal((await wire.next()).headers['content-range'], 'bytes 1000-200999/300000');
  const { received } = wire;
  assert.ok(received.subarray(received.length - 200_000).equals(long.subarray(1_000, 201_000)));
});

test('Range applies only to GET, and with If-Range only to the same version', async (t) => {
  const site = await startSite(t);
  const etag = await etagOf(site, '/digits.txt');
  const range = 'Range: bytes=0-1';
  assert.equal((await site.ask('HEAD /digits.txt', range)).headers['content-length'], '10');
  assert.equal((await site.get('/digits.txt', range, `If-Range: ${etag}`)).status, 206);
  assert.equal((await site.get('/digits.txt', range, 'If-Range: Thu, 02 Jan 2020 03:04:05 GMT')).status, 200);
  assert.equal((await site.get('/digits.txt', range, `If-Range: W/${etag}`)).status, 200);
  assert.equal((await site.get('/digits.txt', range, 'If-Range: "other"')).status, 200);
  assert.equal((await site.get('/digits.txt', range, `If-None-Match: ${etag}`)).status, 304);
  assert.equal((await site.get('/empty.txt', 'Range: bytes=0-')).status, 416);
});

test('a compressed sibling is sent to clients that accept its coding, with another entity tag', async (t) => {
  const site = await startSite(t);
  const plain = await etagOf(site, '/app.js');
  const cases: readonly [accept: string, coding: string | undefined, body: string][] = [
    ['br, gzip', 'br', 'brotli'],
    ['gzip', 'gzip', 'gzipped'],
    ['br;q=0.1, gzip', 'gzip', 'gzipped'],
    ['deflate', undefined, script],
    ['br;q=0', undefined, script],
  ];
  for (const [accept, coding, body] of cases) {
    const got = await site.get('/app.js', `Accept-Encoding: ${accept}`);
    assert.deepEqual([got.headers['content-encoding'], got.body], [coding, body]);
    assert.equal(got.headers['vary'], 'accept-encoding');
    assert.equal(got.headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(got.headers['etag'] === plain, coding === undefined);
  }
  const part = await site.get('/app.js', 'Accept-Encoding: br', 'Range: bytes=0-1');
  assert.deepEqual([part.status, part.headers['content-range'], part.body], [206, 'bytes 0-1/6', 'br']);
  assert.equal((await site.get('/digits.txt', 'Accept-Encoding: br')).headers['vary'], undefined);
});

test('dot-files, links out of the folder, folders and special files are not served', async (t) => {
  const site = await startSite(t, async (dir) => {
    await writeFile(join(dir, '.env'), 'secret');
    await mkdir(join(dir, '.git'));
    await writeFile(join(dir, '.git/config'), 'secret');
    await mkdir(join(dir, 'sub'));
    await writeFile(join(dir, 'sub/.hidden'), 'secret');
    await symlink('../secret.txt', join(dir, 'out.txt'));
    await symlink(join(dir, '../secret.txt'), join(dir, 'absolute.txt'));
    await symlink('out.txt', join(dir, 'twice.txt'));
    await symlink('..', join(dir, 'up'));
    await symlink('../public-secret', join(dir, 'sibling'));
    await symlink('.', join(dir, 'round'));
    await symlink('itself', join(dir, 'itself'));
    await mkdir(join(dir, '../public-secret'));
    await writeFile(join(dir, '../public-secret/secret.txt'), 'secret');
    await symlink('nowhere', join(dir, 'dangling'));
    execFileSync('mkfifo', [join(dir, 'pipe')]);
  });
  const hidden = [
    '.env',
    '.git/config',
    'sub/.hidden',
    'out.txt',
    'absolute.txt',
    'twice.txt',
    'up/secret.txt',
    'up/public/digits.txt',
    'sibling/secret.txt',
    'round/digits.txt',
    'itself',
    'dangling',
    'pipe',
    'sub',
  ];
  for (const name of hidden) assert.equal((await site.get(`/${name}`)).status, 404, name);
});

test('links to files and folders inside the public folder are followed', async (t) => {
  const site = await startSite(t, async (dir) => {
    await symlink('digits.txt', join(dir, 'in.txt'));
    await symlink(join(dir, 'digits.txt'), join(dir, 'absolute.txt'));
    await symlink('docs', join(dir, 'also'));
    await symlink('..', join(dir, 'docs/up'));
    await symlink('app.js', join(dir, 'linked.js'));
    await symlink('app.js.br', join(dir, 'linked.js.br'));
  });
  assert.equal((await site.get('/in.txt')).body, '0123456789');
  assert.equal((await site.get('/absolute.txt')).body, '0123456789');
  assert.equal((await site.get('/also/guide.txt')).body, 'guide');
  assert.equal((await site.get('/also/')).body, 'docs');
  assert.equal((await site.get('/linked.js', 'Accept-Encoding: br')).body, 'brotli');
  assert.equal((await site.get('/docs/up/digits.txt')).status, 404, 'a link to a folder above it');
});

/**
 * A folder as Kubernetes mounts a ConfigMap. Its files are links into `..data`, which is a link to the folder
 * of the current version.
 */
async function mountConfigMap(dir: string, version: string, files: Readonly<Record<string, string>>) {
  await mkdir(join(dir, `..${version}`), { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(dir, `..${version}`, name), content);
    await symlink(join('..data', name), join(dir, name)).catch(() => undefined);
  }
  await symlink(`..${version}`, join(dir, '..data_tmp'));
  await rename(join(dir, '..data_tmp'), join(dir, '..data'));
}

test('the files of a Kubernetes ConfigMap are counted, and served also after an update', async (t) => {
  const dir = temporaryFolder();
  await mountConfigMap(dir, '2026_1', { 'index.html': page, 'a.txt': 'first' });
  const { http, events } = await startService(t, { publicDir: dir });
  const text = async (path: string) => (await fetch(http + path)).text();
  const [listening] = events;
  assert.ok(listening?.type === 'listening');
  assert.equal(listening.files, 2);
  assert.deepEqual([await text('/'), await text('/a.txt')], [page, 'first']);
  await mountConfigMap(dir, '2026_2', { 'index.html': page, 'a.txt': 'second' });
  await rm(join(dir, '..2026_1'), { recursive: true });
  assert.deepEqual([await text('/'), await text('/a.txt')], [page, 'second']);
  assert.equal((await fetch(`${http}/..data/a.txt`)).status, 404);
});

test('a link is no longer followed after it was changed to a target outside the folder', async (t) => {
  const site = await startSite(t, (dir) => symlink('digits.txt', join(dir, 'link.txt')));
  assert.equal((await site.get('/link.txt')).status, 200);
  await rm(join(site.dir, 'link.txt'));
  await symlink('../secret.txt', join(site.dir, 'link.txt'));
  assert.equal((await site.get('/link.txt')).status, 404);
});

type Open = typeof promises.open;

/** Replaces the function that opens files until the test ends. */
function mockOpen(t: TestContext, replacement: Open = promises.open) {
  return mockBuiltin(t, promises, 'open', replacement);
}

/** Swaps files with `swap` immediately before each file of a folder is opened, and back immediately afterwards. */
function swapDuringOpen(t: TestContext, dir: string, swap: () => void, swapBack: () => void): void {
  const { open } = promises;
  mockOpen(t, async (...args) => {
    if (!String(args[0]).startsWith(dir)) return await open(...args);
    swap();
    try {
      return await open(...args);
    } finally {
      swapBack();
    }
  });
}

const swaps: readonly [what: string, name: string, path: string, target: string][] = [
  ['a link', 'link.txt', 'link.txt', '../secret.txt'],
  ['the target of a link', 'link.txt', 'docs/guide.txt', '../../secret.txt'],
  ['a file', 'digits.txt', 'digits.txt', '../secret.txt'],
  ['a folder', 'docs/guide.txt', 'docs', '../private'],
  ['a folder in the target of a link', 'link.txt', 'docs', '../private'],
];

for (const [what, name, path, target] of swaps) {
  for (const [when, isSwappedBack] of [
    ['only while it is opened', true],
    ['when it is opened', false],
  ] as const) {
    test(`${what} that leads out of the folder ${when} reveals nothing`, async (t) => {
      const site = await startSite(t, async (dir) => {
        await symlink('docs/guide.txt', join(dir, 'link.txt'));
        await mkdir(join(dir, '../private'));
        await writeFile(join(dir, '../private/guide.txt'), 'secret');
      });
      const place = join(site.dir, path);
      const swap = () => {
        renameSync(place, `${place}.away`);
        symlinkSync(target, place);
      };
      const swapBack = () => {
        unlinkSync(place);
        renameSync(`${place}.away`, place);
      };
      swapDuringOpen(t, site.dir, swap, isSwappedBack ? swapBack : () => undefined);
      const { status, body } = await site.get(`/${name}`);
      assert.doesNotMatch(body, /secret/);
      assert.ok(status === 404 || status === 200, `${status}`);
    });
  }
}

const openErrors: readonly [code: string, status: number][] = [
  ...['EMFILE', 'ENFILE'].map((code): [string, number] => [code, 503]),
  ...['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENXIO', 'EACCES', 'EPERM'].map((code): [string, number] => [
    code,
    404,
  ]),
  ['EIO', 500],
];
for (const [code, status] of openErrors) {
  test(`a file that cannot be opened because of ${code} returns ${status}, and 5xx is reported with its cause`, async (t) => {
    const site = await startSite(t);
    mockOpen(t, () => Promise.reject(Object.assign(new Error(code), { code })));
    const { status: got, headers } = await site.get('/digits.txt');
    assert.deepEqual([got, headers['retry-after']], [status, status === 503 ? '1' : undefined]);
    const causes = site.failures().map(({ cause }) => String(cause));
    assert.deepEqual(causes, status >= 500 ? [`Error: ${code}`] : []);
  });
}

for (const name of ['digits.txt', 'long.bin']) {
  test(`a file that is rewritten before it is read returns 503: ${name}`, async (t) => {
    const site = await startSite(t);
    const { open } = promises;
    mockOpen(t, async (...args) => {
      const handle = await open(...args);
      const stat = await handle.stat();
      await truncate(join(site.dir, name));
      return Object.assign(handle, { stat: async () => stat });
    });
    const { status, headers, body } = await site.get(`/${name}`);
    assert.deepEqual([status, headers['retry-after']], [503, '1']);
    assert.equal(body, '{"error":"the file changed while it was read"}');
    assert.deepEqual(site.failures(), []);
  });
}

test('a file whose handle is not disposable, as in an archive of Yarn, is served', async (t) => {
  const { open } = promises;
  mockOpen(t, async (...args) => Object.assign(await open(...args), { [Symbol.asyncDispose]: undefined }));
  const site = await startSite(t);
  for (const path of ['/digits.txt', '/long.bin']) assert.equal((await site.get(path)).status, 200, path);
  assert.deepEqual(site.failures(), []);
});

test('a folder without a file to serve is reported with 0 files', async (t) => {
  const dir = temporaryFolder();
  await writeFile(join(dir, '.hidden'), '');
  const { events } = await startService(t, { publicDir: dir });
  assert.ok(events[0]?.type === 'listening' && events[0].files === 0);
});

/** Resolves when the last change of a file is old enough that a new change gets another timestamp. */
async function settled(file: string): Promise<void> {
  const { ctimeMs } = await stat(file);
  while (Date.now() - ctimeMs < 150) await new Promise((resolve) => setTimeout(resolve, 10));
}

test('a long file has another entity tag after it was replaced by one with the same length and time', async (t) => {
  const site = await startSite(t);
  const tags = new Set<unknown>();
  for (const letter of ['a', 'b']) {
    await writeFile(join(site.dir, 'next.bin'), letter.repeat(70_000));
    await utimes(join(site.dir, 'next.bin'), modified, modified);
    await rename(join(site.dir, 'next.bin'), join(site.dir, 'digits.txt'));
    await settled(join(site.dir, 'digits.txt'));
    tags.add(await etagOf(site, '/digits.txt'));
  }
  assert.equal(tags.size, 2);
});

test('a file is kept only if its next change must get another time, also where times are whole seconds', () => {
  const fine = [99, 100].map((age) => isSettled({ ctimeMs: 5_000.25 }, 5_000.25 + age));
  assert.deepEqual(fine, [false, true]);
  const settled = [1_999, 2_000].map((age) => isSettled({ ctimeMs: 5_000 }, 5_000 + age));
  assert.deepEqual(settled, [false, true]);
});

test('a small file is read once and then served from memory until it changes', async (t) => {
  const site = await startSite(t, (dir) => symlink('digits.txt', join(dir, 'link.txt')));
  await settled(join(site.dir, 'digits.txt'));
  const etag = await etagOf(site, '/digits.txt');
  const opens = mockOpen(t);
  assert.equal((await site.get('/digits.txt')).body, '0123456789');
  assert.equal((await site.get('/digits.txt', 'Range: bytes=2-4')).body, '234');
  assert.equal((await site.get('/digits.txt', `If-None-Match: ${etag}`)).status, 304);
  assert.equal((await site.get('/digits.txt', 'If-Match: "other"')).status, 412);
  assert.equal((await site.ask('HEAD /digits.txt')).headers['content-length'], '10');
  assert.equal(opens.calls(), 0);
  // The same length, and the same modification time.
  await writeFile(join(site.dir, 'digits.txt'), '9876543210');
  await utimes(join(site.dir, 'digits.txt'), modified, modified);
  assert.equal((await site.get('/digits.txt', `If-None-Match: ${etag}`)).body, '9876543210');
  assert.equal(opens.calls(), 1);
  await settled(join(site.dir, 'digits.txt'));
  for (const n of [1, 2]) assert.equal((await site.get('/link.txt')).body, '9876543210', `link, ${n}`);
  assert.equal(opens.calls(), 2, 'the target of a link is cached too');
  // Another target, with the same length and the same modification time.
  await writeFile(join(site.dir, 'other.txt'), 'abcdefghij');
  await utimes(join(site.dir, 'other.txt'), modified, modified);
  await symlink('other.txt', join(site.dir, 'next.txt'));
  await rename(join(site.dir, 'next.txt'), join(site.dir, 'link.txt'));
  assert.equal((await site.get('/link.txt')).body, 'abcdefghij');
});

test('a small compressed file is read once and then served from memory until it changes', async (t) => {
  const site = await startSite(t);
  await settled(join(site.dir, 'app.js.br'));
  const ask = async () => (await site.get('/app.js', 'Accept-Encoding: br')).body;
  const opens = mockOpen(t);
  for (const n of [1, 2]) assert.equal(await ask(), 'brotli', `${n}`);
  assert.equal(opens.calls(), 1);
  await writeFile(join(site.dir, 'app.js.br'), 'another');
  assert.equal(await ask(), 'another');
});

test('the cache of files stays within its memory limit', async (t) => {
  const dir = temporaryFolder();
  for (const name of ['a', 'b']) await writeFile(join(dir, name), name.repeat(10));
  const memory = { freeBytes: 15 };
  const handlers = listFiles(dir).map((file): [string, Handler] => [
    `GET ${file.urlPath}`,
    fileHandler(file, {}, memory),
  ]);
  const { port } = await startKit(t, Object.fromEntries(handlers));
  const wire = await Wire.open(t, port);
  const { ctimeMs } = await stat(join(dir, 'b'));
  const { mock } = t.mock.method(Date, 'now', () => ctimeMs + 50);
  await wire.write(head('GET /b')).next();
  assert.equal(memory.freeBytes, 15, 'a file that has just changed must not be kept');
  mock.restore();
  await settled(join(dir, 'b'));
  const ask = async () => {
    for (const name of ['a', 'b']) {
      assert.equal((await wire.write(head(`GET /${name}`)).next()).body, name.repeat(10));
    }
  };
  await ask();
  assert.equal(memory.freeBytes, 5);
  const opens = mockOpen(t);
  await ask();
  assert.equal(opens.calls(), 1, 'only one of the two files fits');
  await writeFile(join(dir, 'a'), '');
  for (let i = 0; i < 2; i += 1) {
    assert.equal((await wire.write(head('GET /a')).next()).body, '');
    assert.equal(memory.freeBytes, 15, 'a changed file must free its memory once');
  }
});

type Change = (file: string) => Promise<unknown>;
const changes: readonly [what: string, change: Change, status: number, body?: string][] = [
  ['removed', (file) => rm(file), 404],
  ['rewritten', (file) => writeFile(file, 'new'), 200, 'new'],
  [
    'replaced by another file',
    (file) => writeFile(`${file}.tmp`, 'another').then(() => rename(`${file}.tmp`, file)),
    200,
    'another',
  ],
  ['replaced by a link to the outside', (file) => rm(file).then(() => symlink('../secret.txt', file)), 404],
  ['replaced by a link within the folder', (file) => rm(file).then(() => symlink('app.js', file)), 404],
  ['replaced by a folder', (file) => rm(file).then(() => mkdir(file)), 404],
  ['replaced by a pipe', (file) => rm(file).then(() => execFileSync('mkfifo', [file])), 404],
  ['emptied', (file) => truncate(file), 200, ''],
];

for (const [what, change, status, body] of changes) {
  test(`a file that is ${what} while the service runs returns ${status}`, async (t) => {
    const site = await startSite(t);
    await settled(join(site.dir, 'digits.txt'));
    // The first request caches the file.
    const before = await etagOf(site, '/digits.txt');
    assert.equal(await etagOf(site, '/digits.txt'), before);
    await change(join(site.dir, 'digits.txt'));
    const got = await site.get('/digits.txt', `If-None-Match: ${before}`);
    assert.equal(got.status, status);
    if (body !== undefined) assert.equal(got.body, body);
  });
}

test('a file that is created while the service runs is not served', async (t) => {
  const site = await startSite(t);
  await writeFile(join(site.dir, 'new.txt'), 'new');
  assert.equal((await site.get('/new.txt')).status, 404);
});

test('without its compressed sibling, a file is served uncompressed', async (t) => {
  const site = await startSite(t);
  await rm(join(site.dir, 'app.js.br'));
  const got = await site.get('/app.js', 'Accept-Encoding: br');
  assert.deepEqual([got.status, got.headers['content-encoding'], got.body], [200, undefined, script]);
});

const huge = 200_000_000;

test('a file that is truncated while it is sent closes the connection, and is reported', async (t) => {
  const site = await startSite(t, async (dir) => {
    await writeFile(join(dir, 'huge.bin'), '');
    await truncate(join(dir, 'huge.bin'), huge);
  });
  const wire = (await Wire.open(t, site.port)).write(head('GET /huge.bin'));
  await once(wire.socket, 'data');
  await truncate(join(site.dir, 'huge.bin'), 1_000_000);
  assert.deepEqual(await wire.end(), [], 'the client must not get a complete response');
  const requests = site.requests().map(({ path, status }) => [path, status]);
  assert.deepEqual(requests, [['/huge.bin', 503]]);
  assert.equal((await site.get('/health')).status, 200);
});

test('a file that grows while it is sent is sent with its original length', async (t) => {
  const site = await startSite(t);
  const wire = (await Wire.open(t, site.port)).write(head('GET /long.bin'), head('GET /health'));
  await once(wire.socket, 'data');
  await appendFile(join(site.dir, 'long.bin'), 'more');
  assert.equal((await wire.next()).headers['content-length'], '300000');
  assert.equal((await wire.next()).body, '{"ok":true}');
});

test('requests for files leave no file descriptor open', { skip: noOpenFiles }, async (t) => {
  const site = await startSite(t, async (dir) => {
    await writeFile(join(dir, 'huge.bin'), '');
    await truncate(join(dir, 'huge.bin'), huge);
  });
  const open = () => openFilesIn(site.dir).length;
  const asks = ['GET /', 'GET /long.bin', 'HEAD /long.bin', 'HEAD /huge.bin', 'GET /docs/guide.txt'];
  const conditions = ['A: b', 'Range: bytes=1-', 'Range: bytes=-0', 'If-Match: "x"', 'If-None-Match: *'];
  for (const ask of asks) for (const condition of conditions) await site.ask(ask, condition);
  for (let i = 0; i < 20; i += 1) {
    const wire = (await Wire.open(t, site.port)).write(head('GET /huge.bin'));
    await once(wire.socket, 'data');
    wire.socket.resetAndDestroy();
  }
  const deadline = performance.now() + 5_000;
  while (open() > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(open(), 0);
});
