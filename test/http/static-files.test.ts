import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, parse } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { contentType, isWithin, listFiles } from '../../src/http/static-files.ts';
import type { ServiceEvent } from '../../src/telemetry/events.ts';
import { send } from '../support/client.ts';
import { mockBuiltin } from '../support/mock-builtin.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';

const cases: readonly [fileName: string, want: string][] = [
  ['index.html', 'text/html; charset=utf-8'],
  ['INDEX.HTML', 'text/html; charset=utf-8'],
  ['docs/a.b.css', 'text/css; charset=utf-8'],
  ['app.mjs', 'text/javascript; charset=utf-8'],
  ['openapi.json', 'application/json; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
  ['users.proto', 'text/plain; charset=utf-8'],
  ['font.woff2', 'font/woff2'],
  ['README', 'application/octet-stream'],
  ['html', 'application/octet-stream'],
  ['a.html.', 'application/octet-stream'],
  ['a.exe', 'application/octet-stream'],
  ['a.constructor', 'application/octet-stream'],
  ['a.__proto__', 'application/octet-stream'],
  ['a.js.br', 'application/octet-stream'],
];

for (const [fileName, want] of cases) {
  test(`the content type of ${fileName} is ${want}`, () => assert.equal(contentType(fileName), want));
}

test('content types are those of mime-db, which Express uses', () => {
  const database: Record<string, { extensions?: string[] }> = createRequire(import.meta.url)('mime-db');
  const expected = new Map<string, string[]>(['yaml', 'yml'].map((name) => [name, ['application/yaml']])); // RFC 9512
  for (const [type, { extensions = [] }] of Object.entries(database)) {
    for (const name of extensions) expected.getOrInsert(name, []).push(type);
  }
  const known = [...expected].filter(([name]) => contentType(`a.${name}`) !== 'application/octet-stream');
  for (const [name, types] of known) {
    const [type = '', charset] = contentType(`a.${name}`).split('; charset=');
    assert.ok(types.includes(type), `${name}: ${type}`);
    assert.ok(charset === 'utf-8' || !type.startsWith('text/'), name);
  }
  const names = known.map(([name]) => name).sort();
  const web = 'avif css csv gif htm html ico jpeg jpg js json map md mjs mp3 mp4 ogg otf pdf png svg ttf txt';
  assert.equal(names.join(' '), `${web} wasm wav webm webmanifest webp woff woff2 xml yaml yml zip`);
});

const meta = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/;

for (const path of ['/', '/index.html', '/api.html']) {
  test(`${path} has the Content-Security-Policy header of its meta element, and cannot be framed`, async (t) => {
    const { http } = await startService(t);
    const { headers, text } = await send(http, `GET ${path}`);
    const [, stated = ''] = meta.exec(text) ?? [];
    assert.match(stated, /^default-src 'none'; /);
    assert.equal(headers['content-security-policy'], `${stated}; frame-ancestors 'none'`);
    assert.equal(headers['x-content-type-options'], 'nosniff');
    const again = await send(http, `GET ${path}`, { headers: { 'if-none-match': headers.etag ?? '' } });
    assert.equal(again.status, 304);
    assert.equal(again.headers['content-security-policy'], headers['content-security-policy']);
  });
}

test('only pages have a Content-Security-Policy header', async (t) => {
  const { http } = await startService(t);
  for (const path of ['/favicon.svg', '/openapi.json', '/health']) {
    assert.equal((await send(http, `GET ${path}`)).headers['content-security-policy'], undefined, path);
  }
});

test('a public folder without files is reported when the service starts', async (t) => {
  const publicDir = temporaryFolder();
  const warnings = (events: readonly ServiceEvent[]) => events.filter(({ type }) => type === 'warning');
  const { events } = await startService(t, { publicDir });
  const message = `the public folder ${publicDir} has no file to serve`;
  assert.deepEqual(warnings(events), [{ type: 'warning', message }]);
  await writeFile(join(publicDir, 'index.html'), 'here');
  assert.deepEqual(warnings((await startService(t, { publicDir })).events), []);
  assert.deepEqual(warnings((await startService(t, { publicDir: false })).events), []);
});

test('pages of a custom public folder get no Content-Security-Policy header', async (t) => {
  const publicDir = temporaryFolder();
  await writeFile(
    join(publicDir, 'index.html'),
    '<meta http-equiv="Content-Security-Policy" content="default-src *">',
  );
  const { http } = await startService(t, { publicDir });
  assert.equal((await send(http, 'GET /')).headers['content-security-policy'], undefined);
});

/** For each folder, the paths that `listFiles` finds in it as a user without root's privileges, or its error. */
async function listAsNobody(folders: readonly string[]): Promise<readonly unknown[]> {
  const module = new URL('../../src/http/static-files.ts', import.meta.url).href;
  // Change the user after the import, because the other user may have no access to the checkout.
  const source = `
    import { listFiles } from ${JSON.stringify(module)};
    if (process.getuid() === 0) process.setuid(65_534);
    const list = (folder) => {
      try {
        return listFiles(folder).map(({ urlPath }) => urlPath).sort();
      } catch ({ code }) {
        return code;
      }
    };
    console.log(JSON.stringify(${JSON.stringify(folders)}.map(list)));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', source]);
  return JSON.parse(stdout);
}

/** A public folder with the files `a.txt`, `inner/b.txt` and `inner/deep/c.txt`, and a link to each folder. */
async function nestedFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'nested-'));
  t.after(async () => {
    // Another user than root cannot remove what it cannot read.
    for (const inner of ['', 'inner', 'inner/deep']) await chmod(join(folder, inner), 0o755);
    await rm(folder, { recursive: true });
  });
  await chmod(folder, 0o755);
  await mkdir(join(folder, 'inner/deep'), { recursive: true });
  for (const name of ['a.txt', 'inner/b.txt', 'inner/deep/c.txt']) await writeFile(join(folder, name), name);
  await symlink('inner', join(folder, 'to-inner'));
  await symlink('inner/deep', join(folder, 'to-deep'));
  return folder;
}

test('a link that cannot be followed, such as one to a lost network drive, is left out', async (t) => {
  const folder = await nestedFolder(t);
  t.mock.method(fs.realpathSync, 'native', (path: string) => {
    if (path.endsWith('to-deep')) throw Object.assign(new Error('not connected'), { code: 'ENOTCONN' });
    return fs.realpathSync(path);
  });
  const paths = listFiles(folder).map(({ plain }) => plain.path.slice(folder.length));
  const inner = ['/inner/b.txt', '/inner/deep/c.txt'];
  assert.deepEqual(paths.sort(), ['/a.txt', ...inner, ...inner.map((path) => `/to-${path.slice(1)}`)]);
});

const deep = ['/inner/deep/c.txt', '/to-deep/c.txt', '/to-inner/deep/c.txt'];
const unreadable: readonly [what: string, folder: string, mode: number, want: unknown][] = [
  [
    'whose folders can be read',
    'inner',
    0o755,
    ['/a.txt', '/inner/b.txt', ...deep, '/to-inner/b.txt'].sort(),
  ],
  ['with a folder that cannot be read', 'inner', 0o000, ['/a.txt']],
  ['with a folder whose files cannot be opened', 'inner', 0o444, ['/a.txt']],
  ['with a folder whose files cannot be listed', 'inner', 0o111, ['/a.txt', '/to-deep/c.txt']],
  ['with a deep folder that cannot be read', 'inner/deep', 0, ['/a.txt', '/inner/b.txt', '/to-inner/b.txt']],
  ['that cannot be read', '', 0o000, 'EACCES'],
  ['whose files cannot be opened', '', 0o444, 'EACCES'],
];
test('a public folder has only the files that the user of the service can read', {
  skip: process.platform === 'win32' && 'Windows has no such file modes',
}, async (t) => {
  const folders: string[] = [];
  for (const [, inner, mode] of unreadable) {
    const folder = await nestedFolder(t);
    await chmod(join(folder, inner), mode);
    folders.push(folder);
  }
  // One process lists all folders.
  const listed = await listAsNobody(folders);
  for (const [i, [what, , , want]] of unreadable.entries()) {
    await t.test(
      `a public folder ${what} ${Array.isArray(want) ? 'has the files' : 'fails with'} ${want}`,
      () => assert.deepEqual(listed[i], want),
    );
  }
});

for (const [code, isLeftOut] of [
  ['EIO', false],
  ['EACCES', true],
  ['EPERM', true],
  ['ENOENT', true],
  ['ENOTDIR', true],
] as const) {
  test(`a folder whose listing fails with ${code} ${isLeftOut ? 'is left out' : 'makes its public folder fail'}`, async (t) => {
    const folder = temporaryFolder();
    await mkdir(join(folder, 'inner'));
    const { readdirSync } = fs;
    mockBuiltin(t, fs, 'readdirSync', (path: string, options: { withFileTypes: true }) => {
      if (!path.endsWith('inner')) return readdirSync(path, options);
      throw Object.assign(new Error('the folder cannot be listed'), { code });
    });
    if (isLeftOut) assert.deepEqual(listFiles(folder), []);
    else assert.throws(() => listFiles(folder), { code });
  });
}

test('a file that is removed while its folder is listed is left out', async (t) => {
  const folder = temporaryFolder();
  for (const name of ['a.txt', 'b.txt']) await writeFile(join(folder, name), name);
  const { readdirSync } = fs;
  mockBuiltin(t, fs, 'readdirSync', (path: string, options: { withFileTypes: true }) => {
    const entries = readdirSync(path, options);
    fs.rmSync(join(path, 'a.txt'));
    return entries;
  });
  const paths = listFiles(folder).map(({ urlPath }) => urlPath);
  assert.deepEqual(paths, ['/b.txt']);
});

test('the root of a drive contains its files', () => {
  const { root } = parse(process.cwd());
  assert.ok(isWithin(root, process.cwd()));
  assert.ok(!isWithin(process.cwd(), root));
});

test('a file has the path that requests get from the system, also if the file system ignores case', async (t) => {
  const folder = temporaryFolder();
  await writeFile(join(folder, 'a.txt'), 'a');
  const native = t.mock.method(fs.realpathSync, 'native', () => folder);
  const paths = listFiles(folder.toUpperCase()).map(({ plain }) => plain.path);
  assert.deepEqual(paths, [join(folder, 'a.txt')]);
  assert.equal(native.mock.callCount(), 1);
});
