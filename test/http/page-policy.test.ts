import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';

const meta = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/;

for (const path of ['/', '/index.html', '/api.html']) {
  test(`${path} is sent with the policy it states, and nobody may frame it`, async (t) => {
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

test('what is no page has no policy', async (t) => {
  const { http } = await startService(t);
  for (const path of ['/favicon.svg', '/openapi.json', '/health']) {
    assert.equal((await send(http, `GET ${path}`)).headers['content-security-policy'], undefined, path);
  }
});

test('pages of another folder are sent as they are', async (t) => {
  const publicDir = await mkdtemp(join(tmpdir(), 'pages-'));
  t.after(() => rm(publicDir, { recursive: true, force: true }));
  await writeFile(
    join(publicDir, 'index.html'),
    '<meta http-equiv="Content-Security-Policy" content="default-src *">',
  );
  const { http } = await startService(t, { publicDir });
  assert.equal((await send(http, 'GET /')).headers['content-security-policy'], undefined);
});
