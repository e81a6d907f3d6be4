import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { launchBrowser, noBrowser } from '../kit/browser.ts';
import { startService } from '../support/service.ts';

// Browsers resolve all names below `localhost` to the loopback address, as a hostile name server would.
const evil = 'evil.localhost';

test('a page of another host name that resolves to the service cannot read from it', {
  skip: noBrowser,
}, async (t) => {
  const { port } = await startService(t, { allowedHosts: [] });
  const other = createServer((_, response) => response.end('<title>evil</title>'));
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  t.after(() => other.close());
  const address = other.address();
  assert.ok(typeof address === 'object' && address !== null);
  const page = await (await launchBrowser()).newPage();
  t.after(() => page.close());
  await page.goto(`http://${evil}:${address.port}/`);
  assert.equal(await page.title(), 'evil', 'the host name must resolve to the loopback address');
  assert.equal((await page.goto(`http://${evil}:${port}/`))?.status(), 421);
  const read = await page.evaluate(async () => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"Eve"}' };
    return [(await fetch('/users')).status, (await fetch('/users', init)).status];
  });
  assert.deepEqual(read, [421, 421]);
  assert.equal((await page.goto(`http://localhost:${port}/users`))?.status(), 200);
  assert.equal(await page.textContent('body'), '[]');
});
