import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { expectAway, useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  changeUser,
  firstNameIs,
  intercept,
  namesIn,
  numbered,
  readUser,
  recordMessages,
  recordRequests,
  showView,
} from './people.ts';
import { startRestartable, startService } from './service.ts';

const outageText = 'The service is not responding';

suite('console: a server that does not respond', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('outages of the service of one page', async (t) => {
    const { http, stop, startAgain } = await startRestartable(t, { repository: createMemoryStore() });
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }, { name: 'Cy' }, ...numbered(8)]);
    const page = await open(t, `${http}/`);
    const banner = page.getByRole('alert').filter({ hasText: outageText });
    const show = async (view: string) => {
      await banner.waitFor({ state: 'detached' });
      await showView(page, view);
    };
    /** Stops the service, and restarts it with the same data after these actions. */
    const outage = async <T>(actions: () => Promise<T>) => {
      await stop();
      return await actions().finally(() => startAgain());
    };

    await t.test(
      'a banner is shown until the server responds again, and then the list is reloaded',
      async () => {
        await firstNameIs(page, 'Ada');
        await outage(async () => {
          await page.getByRole('button', { name: 'Refresh' }).click();
          await banner.waitFor();
          await page.getByRole('status').filter({ hasText: 'No response' }).waitFor();
          // Click during the outage. After it, the page may reconnect before the click.
          await banner.getByRole('button', { name: 'Try now' }).click();
          await banner.waitFor();
        });
        await changeUser(http, 1, { name: 'Ada Lovelace' });
        await announced(page, 'The service is responding again');
        await banner.waitFor({ state: 'detached' });
        await firstNameIs(page, 'Ada Lovelace');
        // The button had the focus.
        await page.locator('#users-heading:focus').waitFor();
      },
    );

    await t.test('a total that was counted before an outage is removed after it', async () => {
      await show('/?limit=10');
      await page.getByRole('button', { name: 'Count all' }).click();
      await page.getByText('11 in all').waitFor();
      await outage(() => banner.waitFor());
      await announced(page, 'The service is responding again');
      await page.locator('#total', { hasText: /^$/ }).waitFor({ state: 'attached' });
    });

    await t.test('a count that was requested during an outage is shown after it', async () => {
      await show('/?limit=10');
      await page.getByRole('button', { name: 'Refresh' }).click();
      await firstNameIs(page, 'Ada');
      await outage(async () => {
        await page.getByRole('button', { name: 'Count all' }).click();
        await banner.waitFor();
      });
      await page.getByText('11 in all').waitFor();
    });

    await t.test('a user that was submitted during an outage is created once after it', async () => {
      await show('/?name=Dee');
      await page.getByRole('button', { name: 'New user' }).click();
      const dialog = page.getByRole('dialog', { name: 'New user' });
      await dialog.getByLabel('Name').fill('Dee');
      await outage(async () => {
        await dialog.getByRole('button', { name: 'Create user' }).click();
        await page.getByText(outageText).waitFor({ state: 'attached' });
        assert.equal(await dialog.getByLabel('Name').inputValue(), 'Dee');
      });
      await firstNameIs(page, 'Dee');
      await page.getByText('User 12 · version 1').waitFor();
      assert.deepEqual(await namesIn(page), ['Dee']);
    });

    await t.test('unsaved changes of a user and a post survive an outage and a reload after it', async () => {
      await show('/users/2');
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Bob L');
      await page.getByText('Write a post').click();
      await page.locator('#post-title').fill('Half a thought');
      await outage(() => banner.waitFor());
      await banner.waitFor({ state: 'detached' });
      await page.reload();
      await form.waitFor();
      assert.equal(await form.getByLabel('Name').inputValue(), 'Bob L');
      assert.equal(await page.locator('#post-title').inputValue(), 'Half a thought');
      await form.getByRole('button', { name: 'Save' }).click();
      await announced(page, 'Saved');
      assert.deepEqual(await readUser(http, 2), { id: 2, name: 'Bob L' });
    });

    await t.test('a deletion that was cancelled during an outage does not happen after it', async () => {
      await show('/users/3');
      const dialog = page.getByRole('dialog', { name: 'Delete this user?' });
      await page.getByRole('button', { name: 'Delete…' }).click();
      const requests = await outage(async () => {
        await dialog.getByRole('button', { name: 'Delete user' }).click();
        await page.getByText(outageText).waitFor({ state: 'attached' });
        await dialog.getByRole('button', { name: 'Cancel' }).click();
        await dialog.waitFor({ state: 'hidden' });
        return recordRequests(page);
      });
      // A deletion that waits for the service is sent before the list is read again.
      await announced(page, 'The service is responding again');
      await firstNameIs(page, 'Ada');
      await page.getByText('version 1').waitFor();
      assert.ok(!requests.some((request) => request.method() === 'DELETE'));
      assert.deepEqual(await readUser(http, 3), { id: 3, name: 'Cy' });
    });
  });

  test('requests that fail or lose their responses on one page', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }]);
    const page = await open(t, `${http}/`);
    const showUser = async (id: number) => {
      await showView(page, `/users/${id}`);
      await page.getByText(`User ${id} · version`).waitFor();
    };

    await t.test('a request to a busy server is retried after its Retry-After', async () => {
      await showView(page, '/');
      let busy = 0;
      await page.route('**/users?*', async (route) => {
        if (busy === 2) return await route.continue();
        busy += 1;
        const headers = { 'retry-after': '0' };
        await route.fulfill({ status: 503, headers, json: { error: 'too many requests are under way' } });
      });
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.locator('#table-area[aria-busy="false"]').waitFor();
      await firstNameIs(page, 'Ada');
      assert.equal(busy, 2);
    });

    await t.test(
      'a creation whose response was lost is retried with its key, and happens once',
      async (t) => {
        await showView(page, '/');
        const requests = recordRequests(page);
        expectAway(t, http);
        let lost = 0;
        await intercept(page, 'POST', '**/users', async (route) => {
          if (lost === 1) return await route.continue();
          lost += 1;
          await route.fetch();
          await route.abort('connectionreset');
        });
        await page.getByRole('button', { name: 'New user' }).click();
        const dialog = page.getByRole('dialog', { name: 'New user' });
        await dialog.getByLabel('Name').fill('Cy');
        await dialog.getByRole('button', { name: 'Create user' }).click();
        await announced(page, 'Created Cy as user 3');
        const keys = requests
          .filter((request) => request.method() === 'POST')
          .map((request) => request.headers()['idempotency-key']);
        assert.equal(keys.length, 2);
        assert.equal(keys[0], keys[1]);
        assert.deepEqual((await send(http, 'GET /users?name=Cy')).json, [{ id: 3, name: 'Cy' }]);
      },
    );

    await t.test(
      'the same text after an error and a closed dialog keeps its key, and other text gets a new key',
      async () => {
        await showView(page, '/');
        const requests = recordRequests(page);
        const failure = { status: 500, json: { error: 'internal error' } };
        await intercept(page, 'POST', '**/users', (route) => route.fulfill(failure));
        const dialog = page.getByRole('dialog', { name: 'New user' });
        for (const name of ['Ada', 'Ada', 'Bob']) {
          await page.getByRole('button', { name: 'New user' }).click();
          await dialog.getByLabel('Name').fill(name);
          await dialog.getByRole('button', { name: 'Create user' }).click();
          await dialog.getByText('The service reported an error: internal error (500).').waitFor();
          await page.keyboard.press('Escape');
        }
        const [first, second, third] = requests
          .filter((request) => request.method() === 'POST')
          .map((request) => request.headers()['idempotency-key']);
        assert.equal(first, second);
        assert.notEqual(second, third);
      },
    );

    await t.test('typed text stays focused in its place until the user can be read again', async () => {
      await showUser(1);
      await page.locator('#edit-name').fill('Ada L');
      const before = await page.locator('#edit-name').boundingBox();
      // The page would wait for 3 s and then for 6 s.
      await page.evaluate(`{
        const { setTimeout } = globalThis;
        globalThis.pauses = [];
        globalThis.setTimeout = (task, ms, ...values) => {
          const isPause = ms === 3_000 || ms === 6_000;
          if (isPause) pauses.push(ms);
          return setTimeout(task, isPause ? 0 : ms, ...values);
        };
      }`);
      const messages = await recordMessages(page);
      const [third, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let reads = 0;
      await page.route('**/users/1', async (route) => {
        reads += 1;
        if (reads < 3) return await route.fulfill({ status: 503, json: { error: 'x' } });
        third.resolve();
        await held.promise;
        await route.continue();
      });
      const read = page.waitForResponse((response) => response.url() === `${http}/users/1` && response.ok());
      await page.evaluate("document.querySelector('#refresh-button').click()");
      await third.promise;
      assert.deepEqual(await page.evaluate('pauses'), [3_000, 6_000]);
      const text = 'The user could not be read again: The service reported an error: x (503).';
      assert.deepEqual(await messages(), [text]);
      assert.equal(await page.locator('#edit-name:focus').inputValue(), 'Ada L');
      assert.deepEqual(await page.locator('#edit-name').boundingBox(), before);
      held.resolve();
      await read;
    });

    await t.test('a page says that one of its scripts was lost, and can be loaded again', async (t) => {
      expectAway(t, http);
      for (const [address, script, content] of [
        ['/#/', 'edit/save.js', '#user-rows a'],
        ['/api.html', 'reference/samples.js', 'article'],
      ] as const) {
        await page.route(`**/${script}`, (route) => route.abort('connectionreset'), { times: 1 });
        await page.goto('about:blank');
        await page.goto(http + address);
        const message = page.getByRole('alert').filter({ hasText: 'could not be loaded completely' });
        await message.getByRole('button', { name: 'Reload' }).click();
        await page.locator(content).first().waitFor();
        assert.equal(await message.count(), 0);
      }
    });

    await t.test('a page says that one of its scripts is of another version', async () => {
      // This page may report errors.
      const other = await page.context().newPage();
      const script = { contentType: 'text/javascript', body: 'export {}' };
      await other.route('**/ui/messages.js', (route) => route.fulfill(script));
      for (const address of ['/', '/api.html']) {
        await other.goto(http + address);
        await other.getByRole('alert').filter({ hasText: 'could not be loaded completely' }).waitFor();
      }
      await other.close();
    });
  });
});
