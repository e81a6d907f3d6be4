import assert from 'node:assert/strict';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { head, Wire } from '../kit/wire.ts';
import { startService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { checkForm } from './wire/table.ts';

// Spellings of ".." that have worked as path traversal in some server.
const ups = [
  '..',
  '...',
  '....',
  '.../...',
  '....//',
  '..;',
  '..;/',
  '..;foo=bar',
  '..%00',
  '..%0d',
  '..%20',
  '..%09',
  '..?',
  '..%3f',
  '..%23',
  '%2e%2e',
  '%2E%2E',
  '.%2e',
  '%2e.',
  '%252e%252e',
  '%25252e%25252e',
  '%c0%ae%c0%ae',
  '%e0%80%ae%e0%80%ae',
  '%u002e%u002e',
  '%uff0e%uff0e',
  '%ef%bc%8e%ef%bc%8e',
  '..%c0%af',
  '..%c1%9c',
  '..%2f',
  '..%2F',
  '..%252f',
  '..%5c',
  '..%5C',
  '..%255c',
  '..\\',
  '..\\..',
  '.',
  './.',
  '',
  '%2f',
  '%5c',
  '~',
];
const joints = ['/', '//', '/./', '%2f', '%5c', '\\'];
const names = ['secret.txt', 'public-secret/secret.txt', 'etc/passwd', '.env', 'private'];

// The content of all files that no request may read.
const mark = 'TOP-SECRET';

test('no spelling of a path reaches a file outside the public folder', async (t) => {
  const outer = temporaryFolder();
  await mkdir(join(outer, 'public/sub'), { recursive: true });
  await mkdir(join(outer, 'public-secret'));
  for (const file of ['secret.txt', 'public-secret/secret.txt', '.env', 'private', 'public/.env']) {
    await writeFile(join(outer, file), mark);
  }
  await writeFile(join(outer, 'public/sub/open.txt'), 'open');
  await symlink('../..', join(outer, 'public/sub/up'));
  await symlink('sub', join(outer, 'public/in'));
  await symlink('../../public-secret', join(outer, 'public/sub/out'));
  const { port, failures } = await startService(t, { publicDir: join(outer, 'public'), apiKeys: ['key'] });

  const fixed = [
    `/${join(outer, 'secret.txt')}`,
    `/${encodeURIComponent(join(outer, 'secret.txt'))}`,
    '/sub/up/secret.txt',
    '/sub/up/public-secret/secret.txt',
    '/in/up/secret.txt',
    '/in/out/secret.txt',
    '/sub/out/secret.txt',
    '/-secret/secret.txt',
    '/public-secret/secret.txt',
    '/C:/secret.txt',
    '/file:///etc/passwd',
    '/etc/passwd',
    '//etc/passwd',
    '/proc/self/environ',
    '/dev/zero',
    `/${'a'.repeat(4_000)}`,
    `/${'../'.repeat(2_000)}secret.txt`,
    `/${'%2e%2e%2f'.repeat(800)}secret.txt`,
    `/sub/${'./'.repeat(2_000)}open.txt`,
    '/secret.txt%00.html',
    '/sub/open.txt%00',
    '/sub/open.txt/../../../secret.txt',
    'http://x/../secret.txt',
    'http://x/sub/../../secret.txt',
  ];
  const made = ups.flatMap((up) =>
    joints.flatMap((joint) =>
      names.flatMap((name) => [`/${up}${joint}${name}`, `/sub/${up}${joint}${up}${joint}${name}`]),
    ),
  );
  let wire = await Wire.open(t, port);
  for (const target of [...fixed, ...made]) {
    wire.write(head(`GET ${target}`));
    const response = await wire.next();
    assert.ok([400, 401, 404].includes(response.status), `${response.status} ${target}`);
    checkForm(response, false);
    assert.equal(wire.received.includes(mark), false, target);
    // A request that the parser rejects closes the connection.
    if (response.headers['connection'] === 'close') wire = await Wire.open(t, port);
    wire.forget();
  }
  assert.deepEqual(failures(), []);
});

const keyless = [
  '/private',
  '//private',
  '/%70rivate',
  '/private/',
  '/private?x-api-key=key',
  '/./private',
  '/PRIVATE',
  '/private%20',
  '/private;a=b',
  '/private%2f',
  '/x/../private',
  'http://x/private',
  '/private//',
  '/private/.',
  '/%2fprivate',
];

test('no spelling of the path /private bypasses its key', async (t) => {
  const { port } = await startService(t, { apiKeys: ['key'] });
  for (const target of keyless) {
    const response = await (await Wire.open(t, port)).write(head(`GET ${target}`)).next();
    assert.ok([400, 401, 404].includes(response.status), `${response.status} ${target}`);
    assert.doesNotMatch(response.body, /secretData/);
  }
});
