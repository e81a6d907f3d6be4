import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { createRequestListener } from '../../src/service/request-listener.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { closeBrowser, launchBrowser, noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { listen } from '../support/listen.ts';
import { startService } from '../support/service.ts';

// Browsers resolve all names below `localhost` to the loopback address, as a hostile name server would.
const evil = 'evil.localhost';

// Otherwise this file does not end if it runs alone.
after(closeBrowser);

test('a page of another host name that resolves to the service cannot read from it', {
  skip: noBrowser,
}, async (t) => {
  const { port } = await startService(t, { allowedHosts: [] });
  const other = await listen(
    t,
    createServer((_, response) => response.end('<title>evil</title>')),
  );
  const page = await (await launchBrowser()).newPage();
  t.after(() => page.close());
  await page.goto(`http://${evil}:${other.port}/`);
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

test('text that was typed for a service is not in the page of one at another path of the host', {
  skip: noBrowser,
}, async (t) => {
  const mount = (basePath: string) => createRequestListener({ repository: createMemoryStore(), basePath });
  const [one, two, root] = [mount('/one'), mount('/two'), mount('')];
  const { http } = await listen(
    t,
    createServer((...call) => void one(...call, () => two(...call, () => root(...call)))),
  );
  const page = await (await launchBrowser()).newPage();
  t.after(() => page.close());
  const name = page.locator('#edit-name');
  for (const basePath of ['/one', '/two']) {
    await send(http, `POST ${basePath}/users`, { json: { name: 'Ada' }, basePath });
    await page.goto(`${http}${basePath}/#/users/1`);
    await page.getByText('User 1 · version').waitFor();
    assert.equal(await name.inputValue(), 'Ada', basePath);
    await name.fill('Ada L');
  }
  await page.reload();
  await page.getByText('User 1 · version').waitFor();
  assert.equal(await name.inputValue(), 'Ada L');
  // With the key, a page forgets all texts that it finds.
  await page.goto(http);
  assert.deepEqual(await page.evaluate("import('/console/ui/memory.js').then((m) => m.session.names())"), []);
});
