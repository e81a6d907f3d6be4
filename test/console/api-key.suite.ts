import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page, Request } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { until } from '../kit/until.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import { announced, firstNameIs, isLive, recordRequests, save, showView, styleOf } from './people.ts';
import { startService } from './service.ts';

const apiKey = 'a-secret-key';
const withKey = { headers: { 'x-api-key': apiKey } };

/** The part of each panel that is busy while its requests run. */
const areas = { list: 'table-area', detail: 'detail', posts: 'post-list' };

/** The figures are read again when the page becomes visible. */
async function pollTwice(page: Page): Promise<void> {
  for (let i = 0; i < 2; i += 1) {
    const read = page.waitForResponse('**/metrics');
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await read;
  }
}

suite('console: API key', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('an API key on the page of a service that needs one for every request', async (t) => {
    const apiKeys = [apiKey, 'another-key', 'reader:read=r1'];
    const { http, service } = await startService(t, { auth: 'all', apiKeys });
    await send(http, 'POST /users', { json: { name: 'Ada' }, ...withKey });
    const page = await open(t, `${http}/`);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    const enter = async (key: string) => {
      await dialog.getByLabel('Key').fill(key);
      await page.keyboard.press('Enter');
    };
    /** Lists the users with the first key. */
    const useKey = async (view = '/') => {
      await showView(page, view);
      await page.locator('#key-button').click();
      await enter(apiKey);
      await page.locator('#table-area[aria-busy="false"]').waitFor();
      await firstNameIs(page, 'Ada');
    };
    /** Shows a view without a key, which opens the dialog. */
    const useNone = async (view = '/') => {
      await page.evaluate('sessionStorage.clear()');
      await showView(page, view);
      await page.evaluate("document.querySelector('#refresh-button').click()");
      await dialog.waitFor();
    };
    /** Closes the dialog until each of these panels says that it needs a key. */
    const decline = (...panels: (keyof typeof areas)[]) =>
      until(
        async () => {
          // A request whose response arrives after the dialog was closed opens it again.
          if (await dialog.isVisible()) await page.keyboard.press('Escape');
          for (const panel of panels) {
            const needed = page.locator(`#${panel}-state`).getByText('An API key is needed');
            const idle = page.locator(`#${areas[panel]}[aria-busy="false"]`);
            if ((await needed.count()) === 0 || (await idle.count()) === 0) return false;
          }
          return true;
        },
        'the panels say that they need a key',
        60_000,
        50,
      );

    await t.test(
      'an API key is requested at once without an error, and then the failed requests are retried',
      async () => {
        await dialog.getByText('This service asks for an API key.').waitFor();
        await page.getByText('The figures need an API key').waitFor({ state: 'attached' });
        assert.equal(await page.locator('.field-error, .form-error, [role="alert"]:not(:empty)').count(), 0);
        await enter('a-wrong-key');
        await dialog.getByRole('textbox', { description: 'The service does not accept this key.' }).waitFor();
        await enter(apiKey);
        await firstNameIs(page, 'Ada');
        await dialog.waitFor({ state: 'hidden' });
        await page.getByText('The charts show the last two minutes').waitFor();
      },
    );

    await t.test('an API key that expires while the page is open is marked as rejected', async (t) => {
      t.after(() => service.setApiKeys(apiKeys));
      await useKey();
      await page.getByText('The charts show the last two minutes').waitFor();
      const requests = recordRequests(page);
      await pollTwice(page);
      assert.deepEqual(requests, [], 'a poll with a key that is already accepted reads nothing again');
      service.setApiKeys(['another-key']);
      await pollTwice(page);
      await page.getByText('The service does not accept the API key. Not updated since').waitFor();
      // The figures may fail for another reason, too.
      await page.route('**/metrics', (route) => route.fulfill({ status: 404, json: { error: 'x' } }));
      await pollTwice(page);
      await page.getByText('No figures: /metrics responded 404. Not updated since').waitFor();
      await page.unroute('**/metrics');
      await page.getByRole('button', { name: 'API key: rejected' }).click();
      await page.getByRole('textbox', { description: 'The service does not accept this key.' }).waitFor();
      await page.keyboard.press('Escape');
      // Another copy of the service may have rejected it, because it had not read the file of keys yet.
      service.setApiKeys([apiKey]);
      await pollTwice(page);
      await page.getByRole('button', { name: 'API key: set' }).waitFor();
    });

    await t.test(
      'an API key is stored only in its tab, and is never part of a displayed curl line',
      async () => {
        await useKey();
        assert.equal(await page.evaluate('JSON.stringify(localStorage) + document.cookie'), '{}');
        assert.match(await page.evaluate('JSON.stringify(sessionStorage)'), /a-secret-key/);
        await page.getByRole('button', { name: 'Requests', exact: true }).click();
        assert.ok(!(await page.locator('body').allTextContents()).join().includes(apiKey));
        await page.locator('#request-list code', { hasText: '-H "x-api-key: $API_KEY"' }).first().waitFor();
        const requests = recordRequests(page);
        await page.reload();
        await firstNameIs(page, 'Ada');
        assert.equal(requests.length, 1, 'the list is read once');
      },
    );

    await t.test('a count that needs a new API key is shown after the key was entered', async (t) => {
      t.after(() => service.setApiKeys(apiKeys));
      for (let i = 1; i < 11; i += 1)
        await send(http, 'POST /users', { json: { name: `user ${i}` }, ...withKey });
      await useKey('/?limit=10');
      await isLive(page);
      service.setApiKeys(['another-key']);
      await page.getByRole('button', { name: 'Count all' }).click();
      await enter('another-key');
      await page.getByText('11 in all').waitFor();
    });

    await t.test(
      'an API key that was changed on the other page is used when Back restores this one',
      async () => {
        await useKey();
        await page.getByRole('button', { name: 'New user' }).click();
        await page.getByRole('dialog', { name: 'New user' }).getByLabel('Name').fill('Unsaved');
        const reads = (request: Request) => new URL(request.url()).pathname === '/users';
        const read = page.waitForRequest(
          (request) => reads(request) && request.headers()['x-api-key'] === 'another-key',
        );
        await page.evaluate(`
        dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
        for (const name of Object.keys(sessionStorage))
          if (sessionStorage[name] === ${JSON.stringify(apiKey)}) sessionStorage[name] = 'another-key';
        dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));`);
        await read;
        assert.equal(await page.locator('#new-name').inputValue(), 'Unsaved');
      },
    );

    await t.test(
      'an API key that was forgotten on the other page is forgotten when Back restores this one',
      async () => {
        await useKey();
        // The cache that Back uses is off in tests.
        const loaded = page.waitForEvent('load');
        await page.evaluate(`
        dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
        sessionStorage.clear();
        dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));`);
        await loaded;
        await dialog.getByText('This service asks for an API key.').waitFor();
        assert.equal(await page.getByText('Ada').count(), 0);
      },
    );

    await t.test(
      'an API key can be added later, and forgotten with all that it has read and all unsaved text',
      async () => {
        await useNone('/users/1');
        await decline('list', 'detail', 'posts');
        assert.equal(await page.getByRole('alert').filter({ hasText: /./ }).count(), 0);
        // With the button of any panel, all of them are read again.
        await page.locator('#list-state').getByRole('button', { name: 'Add API key' }).click();
        await enter(apiKey);
        await firstNameIs(page, 'Ada');
        await page.getByRole('heading', { name: 'Ada' }).waitFor();
        await page.getByText('No posts yet').waitFor();
        await isLive(page);
        await page.locator('#edit-name').fill('Ada L');
        await page.getByRole('button', { name: 'API key: set' }).click();
        const loaded = page.waitForEvent('load');
        const warning = 'Forgetting the key also removes unsaved text from this tab.';
        await dialog.getByRole('button', { name: 'Forget key', description: warning }).click();
        await loaded;
        await dialog.getByText('This service asks for an API key.').waitFor();
        assert.equal(await page.getByText('Ada').count(), 0);
        assert.equal(await page.evaluate('JSON.stringify(sessionStorage)'), '{}');
      },
    );

    await t.test(
      'an API key that no header can contain is not sent, and a rejected one is marked until another is entered',
      async () => {
        await useNone();
        const requests = recordRequests(page);
        await enter('schlüssel 鍵');
        await dialog.getByRole('textbox', { description: /visible ASCII/ }).waitFor();
        assert.equal(requests.length, 0);
        await enter('wrong');
        await page.locator('#key-button-label', { hasText: 'API key: rejected' }).waitFor();
        await dialog.getByText('The service does not accept this key').waitFor();
        // The figures need a key too.
        await pollTwice(page);
        assert.equal(await page.locator('#key-button-label').textContent(), 'API key: rejected');
        await enter('r1');
        await firstNameIs(page, 'Ada');
        await page.getByRole('button', { name: 'API key: set' }).waitFor();
        await page.getByRole('button', { name: 'New user' }).click();
        const create = page.getByRole('dialog', { name: 'New user' });
        await create.getByLabel('Name').fill('Eve');
        await page.keyboard.press('Enter');
        await create.getByText('Your API key does not allow this: this key has no write scope.').waitFor();
      },
    );

    await t.test(
      'an API key that is entered for a new user reads the panels that have failed without it',
      async () => {
        await useNone();
        await decline('list');
        await page.getByRole('button', { name: 'New user' }).click();
        await enter(apiKey);
        await page.getByRole('dialog', { name: 'New user' }).waitFor();
        await firstNameIs(page, 'Ada');
      },
    );

    await t.test(
      'an API key is not marked as rejected by a poll that began with an earlier key',
      async () => {
        // On a slow machine, the poll below may wait longer than the page waits for a response.
        await page.evaluate('AbortSignal.timeout = () => new AbortController().signal');
        await useKey();
        await page.getByText('The charts show the last two minutes').waitFor();
        const reached = Promise.withResolvers<void>();
        const replaced = Promise.withResolvers<void>();
        await page.route('**/metrics', async (route) => {
          // A later poll would replace the message.
          if (route.request().headers()['x-api-key'] !== apiKey) return;
          reached.resolve();
          await replaced.promise;
          await route.fulfill({ status: 401, json: { error: 'no' } });
        });
        await reached.promise;
        await page.getByRole('button', { name: 'API key: set' }).click();
        await enter('another-key');
        await dialog.waitFor({ state: 'hidden' });
        replaced.resolve();
        await page.getByText('The figures need an API key. Not updated since').waitFor();
      },
    );
  });

  test('an API key on the page of a service that needs one only for writes', async (t) => {
    const { http } = await startService(t, { auth: 'writes', apiKeys: [apiKey] });
    await send(http, 'POST /users', { json: { name: 'Ada' }, ...withKey });
    await send(http, 'POST /users/1/posts', { json: { title: 'One' }, ...withKey });
    const page = await open(t, `${http}/`);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await page.getByRole('banner').getByRole('button', { name: 'Add API key' }).waitFor();

    await t.test(
      'an API key can be declined without losing the typed text, and its dialog does not make the form wait',
      async () => {
        await showView(page, '/users/1');
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByLabel('Name').fill('Ada L');
        await page.keyboard.press('Enter');
        await dialog.waitFor();
        await page.locator('#edit-form[aria-busy="true"]').waitFor();
        assert.equal(await styleOf(page, '#edit-form .actions::after', 'content'), 'none');
        await page.keyboard.press('Escape');
        await form.getByText('This needs an API key that the service accepts.').waitFor();
        assert.equal(await form.getByLabel('Name').inputValue(), 'Ada L');
      },
    );

    await t.test(
      'an API key for the deletion of a post deletes nothing if Back has closed the post meanwhile',
      async () => {
        await showView(page, '/');
        await page.getByRole('link', { name: 'Ada' }).click();
        await page.getByRole('button', { name: 'Edit One' }).click();
        await page.locator('#post-edit-form').getByRole('button', { name: 'Delete…' }).click();
        await page.goBack();
        await page.locator('#detail').waitFor({ state: 'hidden' });
        await dialog.getByLabel('Key').fill(apiKey);
        await page.keyboard.press('Enter');
        await page.getByRole('button', { name: 'API key: set' }).waitFor();
        // The page would report an error for a post that is not open.
        assert.equal(await page.locator('dialog[open]').count(), 0);
      },
    );

    await t.test('an API key can be entered before the first write if only writes need it', async () => {
      await page.evaluate('sessionStorage.clear()');
      await showView(page, '/');
      const requests = recordRequests(page);
      await page.getByRole('button', { name: 'New user' }).click();
      await dialog.getByLabel('Key').fill(apiKey);
      await page.keyboard.press('Enter');
      await page.getByRole('dialog', { name: 'New user' }).getByLabel('Name').fill('Bob');
      await page.keyboard.press('Enter');
      await announced(page, 'Created Bob as user 2');
      assert.equal(requests.filter((request) => request.method() === 'POST').length, 1);
    });

    await t.test('an API key that was entered for a save is part of its curl line', async () => {
      await page.evaluate('sessionStorage.clear()');
      await showView(page, '/users/1');
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Ada L');
      await page.keyboard.press('Enter');
      await dialog.getByLabel('Key').fill(apiKey);
      await page.keyboard.press('Enter');
      await announced(page, 'Saved Ada L');
      await page.getByRole('button', { name: 'Requests', exact: true }).click();
      const saved = page.locator('#request-list code', { hasText: '-X PATCH' }).first();
      assert.match(String(await saved.textContent()), /"x-api-key: \$API_KEY"/);
    });

    await t.test(
      'an API key that is missing for the change of a post is requested, and then used',
      async () => {
        await page.evaluate('sessionStorage.clear()');
        await showView(page, '/users/1');
        await page.getByRole('button', { name: 'Edit One' }).click();
        const form = page.getByRole('form', { name: 'Edit post' });
        await save(form, { Title: 'With a key' });
        await dialog.getByLabel('Key').fill(apiKey);
        assert.equal(await form.locator('.field-error, .form-error').count(), 0);
        await page.keyboard.press('Enter');
        await announced(page, 'Saved With a key');
      },
    );
  });

  test('an API key is never mentioned for a service without keys', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/`);
    await page.getByText('The charts show the last two minutes').waitFor();
    await page.getByRole('button', { name: 'New user' }).click();
    await page.getByRole('dialog', { name: 'New user' }).waitFor();
    assert.equal(await page.locator('#key-button').isVisible(), false);
    // Back restores the page as it was left.
    const requests = recordRequests(page);
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    await pollTwice(page);
    assert.deepEqual(requests, []);
  });
});
