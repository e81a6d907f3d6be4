import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  changeUser,
  firstNameIs,
  holdRequests,
  intercept,
  openUser,
  readUser,
  recordRequests,
  styleOf,
} from './people.ts';
import { startService } from './service.ts';

suite('console: users', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('users can be created and changed', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/`);

    await t.test('a new user is created with an Idempotency-Key and opened, and ends a count', async () => {
      // The list of no users hides this button.
      await page.evaluate("document.querySelector('#count-button').click()");
      await page.locator('#total', { hasText: '0 in all' }).waitFor({ state: 'attached' });
      const requests = recordRequests(page);
      await page.getByRole('button', { name: 'New user' }).click();
      const dialog = page.getByRole('dialog', { name: 'New user' });
      await dialog.getByLabel('Name').fill('Ada Lovelace');
      await dialog.getByLabel('Role').fill('admin');
      await dialog.getByRole('button', { name: 'Create user' }).click();
      await announced(page, 'Created Ada Lovelace as user 1');
      await page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor();
      await firstNameIs(page, 'Ada Lovelace');
      assert.equal(await page.locator('#total').textContent(), '');
      assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Ada Lovelace', role: 'admin' });
      const post = requests.find((request) => request.method() === 'POST');
      assert.match(post?.headers()['idempotency-key'] ?? '', /^[0-9a-f-]{36}$/);
    });

    await t.test('an invalid field shows the reason beside it, and keeps the typed text', async () => {
      await page.getByRole('button', { name: 'New user' }).click();
      const dialog = page.getByRole('dialog', { name: 'New user' });
      await dialog.getByLabel('Name').fill('   ');
      await dialog.getByRole('button', { name: 'Create user' }).click();
      const invalid = dialog.locator('[aria-invalid="true"]');
      await dialog.getByRole('textbox', { description: 'Name must not be blank.' }).and(invalid).waitFor();
      await dialog.locator('#new-name:focus').waitFor();
      assert.equal(await dialog.locator('.form-error').count(), 0);
      const others = await page.evaluate<string[]>(`
        [...document.querySelectorAll('form :is(input, textarea)')]
          .filter((field) => !field.getAttribute('aria-describedby')?.startsWith(field.id + '-problem'))
          .map(({ id }) => id)`);
      assert.deepEqual(others, [], 'screen readers read the problem of each field');
      await dialog.getByLabel('Name').fill('Ada');
      assert.equal(await invalid.count(), 0, 'a changed field must not be marked as invalid');
      await dialog.getByLabel('Role').fill('Queen');
      await dialog.getByRole('button', { name: 'Create user' }).click();
      await dialog
        .locator('#new-role + .field-error', { hasText: /^Role must be a lower-case letter/ })
        .waitFor();
      assert.equal(await page.locator('#new-role-hint').isVisible(), false, 'the hint repeats the problem');
      await page.keyboard.press('Escape');
      await announced(page, 'This tab keeps your text for the new user');
      await page.getByRole('button', { name: 'New user' }).click();
      assert.equal(await dialog.getByLabel('Name').inputValue(), 'Ada');
      await dialog.getByLabel('Role').fill('queen');
      await dialog.getByRole('button', { name: 'Create user' }).click();
      await announced(page, 'Created Ada as user 2');
    });

    await t.test('saving a user sends only the changed fields with the shown version', async () => {
      await page.getByRole('heading', { name: 'Ada', exact: true }).waitFor();
      const requests = recordRequests(page);
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Ada King');
      await form.getByRole('button', { name: 'Save' }).click();
      await announced(page, 'Saved Ada King');
      await page.getByRole('link', { name: 'Ada King' }).waitFor();
      await page.getByText('version 2').waitFor();
      assert.equal(await page.title(), 'Ada King · User 2 · users-service');
      const [patch] = requests;
      assert.equal(patch?.method(), 'PATCH');
      assert.equal(patch?.headers()['if-match'], '"1"');
      assert.deepEqual(patch?.postDataJSON(), { name: 'Ada King' });
    });

    await t.test(
      'unsaved changes are marked, and kept while another user is open and after a reload, and Save needs one',
      async () => {
        await page.goto(`${http}/#/users/2`);
        await page.getByRole('heading', { name: 'Ada King' }).waitFor();
        const save = page.getByRole('button', { name: 'Save' });
        const unsaved = page.locator('#edit-unsaved');
        const mark = page.locator('tr[data-id="2"]').getByText('Unsaved');
        assert.equal(await save.getAttribute('aria-disabled'), 'true');
        const requests = recordRequests(page);
        const name = page.getByRole('form', { name: 'Edit user' }).getByLabel('Name');
        await name.press('Enter');
        assert.equal(requests.length, 0, 'a request was sent without a change');
        await name.fill('Countess');
        await unsaved.waitFor();
        await mark.waitFor();
        await openUser(page, 'Ada Lovelace');
        await page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor();
        assert.equal(await name.inputValue(), 'Ada Lovelace');
        await unsaved.waitFor({ state: 'hidden' });
        await mark.waitFor();
        await openUser(page, 'Ada King');
        await page.getByRole('heading', { name: 'Ada King' }).waitFor();
        assert.equal(await name.inputValue(), 'Countess');
        await page.reload();
        await page.getByRole('heading', { name: 'Ada King' }).waitFor();
        assert.equal(await name.inputValue(), 'Countess');
        await save.and(page.locator('[aria-disabled="false"]')).click();
        await announced(page, 'Saved Countess');
        await unsaved.waitFor({ state: 'hidden' });
        await mark.waitFor({ state: 'hidden' });
      },
    );

    await t.test(
      'a page that loads and a change that is being saved show that they wait, and a change can be discarded',
      async () => {
        await page.goto(`${http}/#/`);
        await page.locator('#detail').waitFor({ state: 'hidden' });
        // Over a slow network, the scripts arrive seconds after the page.
        assert.match((await send(http, 'GET /')).text, /id="table-area" aria-busy="true"/);
        const loading = Promise.withResolvers<void>();
        await page.route('**/users/2', async (route) => {
          // A PATCH never reaches the service.
          if (route.request().method() === 'PATCH') return;
          await loading.promise;
          await route.continue();
        });
        const textAfter = (selector: string) => styleOf(page, `${selector}::after`, 'content');
        await page.evaluate("document.querySelector('#feed-state').textContent = ''");
        assert.equal(await styleOf(page, '#feed-state::before', 'content'), 'none', 'a dot before no state');
        await page.getByRole('link', { name: 'Countess' }).click();
        await page.locator('#detail[aria-busy="true"]').waitFor();
        assert.equal(await textAfter('#detail'), '"Loading…"');
        loading.resolve();
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByLabel('Name').fill('Ada');
        assert.equal(await textAfter('#detail'), 'none');
        assert.equal(await textAfter('#detail form .actions'), 'none');
        const place = await form.boundingBox();
        const sent = page.waitForRequest((request) => request.method() === 'PATCH');
        await form.getByRole('button', { name: 'Save' }).click();
        await page.locator('form[aria-busy="true"]').waitFor();
        await sent;
        assert.equal(await textAfter('#detail form .actions'), '"Waiting for the service…"');
        assert.deepEqual(await form.boundingBox(), place, 'the form grows');
        assert.equal(await form.getByLabel('Name').isEditable(), false);
        // Without a response, the console would cancel it after 15 s.
        const failed = page.waitForEvent('requestfailed', { timeout: 10_000 });
        await form.getByRole('button', { name: 'Discard' }).click();
        assert.equal((await failed).method(), 'PATCH', 'the request must be cancelled');
        assert.equal(await form.getByLabel('Name').inputValue(), 'Countess');
        assert.equal(await form.getByLabel('Name').isEditable(), true);
        assert.equal(await form.getByRole('alert').count(), 0);
        assert.equal(await form.getByRole('button', { name: 'Discard' }).isVisible(), false);
      },
    );

    await t.test('an error of the service is shown as a sentence with the request id', async () => {
      await page.goto(`${http}/#/users/1`);
      await page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor();
      const failure = { status: 500, headers: { 'x-request-id': 'abc' }, json: { error: 'internal error' } };
      await intercept(page, 'PATCH', '**/users/1', (route) => route.fulfill(failure));
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Ada L');
      await form.getByRole('button', { name: 'Save' }).click();
      const alert = form.getByRole('alert');
      await alert.filter({ hasText: 'The service reported an error: internal error (500).' }).waitFor();
      await alert.getByText('Request id: abc').waitFor();
      await page.unroute('**/users/1');
      await form.getByRole('button', { name: 'Discard' }).click();
    });

    await t.test(
      'a rejected change of a user shows the reason, also beside another user, and can be discarded',
      async () => {
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByLabel('Name').fill('');
        await form.getByRole('button', { name: 'Save' }).click();
        await form.getByText('Name must not be blank.').waitFor();
        await form.getByRole('button', { name: 'Discard' }).click();
        assert.equal(await form.getByLabel('Name').inputValue(), 'Ada Lovelace');
        assert.equal(await form.locator('.field-error').count(), 0);
        const release = await holdRequests(page, 'PATCH', '**/users/1');
        await form.getByLabel('Name').fill('');
        await form.getByRole('button', { name: 'Save' }).click();
        await openUser(page, 'Countess');
        release();
        await announced(page, 'Ada Lovelace was not saved: Name must not be blank.');
      },
    );

    await t.test('a discarded change does not end the running save of another user', async () => {
      const form = page.getByRole('form', { name: 'Edit user' });
      await openUser(page, 'Ada Lovelace');
      const release = await holdRequests(page, 'PATCH', '**/users/1');
      await form.getByLabel('Name').fill('Ada King');
      await form.getByRole('button', { name: 'Save' }).click();
      await openUser(page, 'Countess');
      await form.getByLabel('Name').fill('other');
      await form.getByRole('button', { name: 'Discard' }).click();
      release();
      await announced(page, 'Saved Ada King');
    });
  });

  test('the reason of a failed save stays while the user is read again, until the change is taken back', async (t) => {
    const { http } = await startService(t, { changesKept: false });
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }]);
    const page = await open(t, `${http}/#/users/1`);
    await intercept(page, 'PATCH', '**/users/1', (route) => route.fulfill({ status: 500 }));
    const form = page.getByRole('form', { name: 'Edit user' });
    const reason = form.getByText('The service reported an error');
    const fail = async () => {
      await form.getByLabel('Name').fill('Ada L');
      await form.getByRole('button', { name: 'Save' }).click();
      await reason.waitFor();
    };
    await fail();
    await changeUser(http, 1, { role: 'editor' });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('version 2').waitFor();
    assert.equal(await reason.count(), 1);
    await form.getByLabel('Name').fill('Ada');
    assert.equal(await reason.count(), 0);
    await openUser(page, 'Bob');
    await page.getByText('User 2').waitFor();
    await form.getByLabel('Name').fill('Bob L');
    await openUser(page, 'Ada');
    await page.getByText('User 1').waitFor();
    await fail();
    await openUser(page, 'Bob');
    await page.getByText('User 2').waitFor();
    assert.equal(await reason.count(), 0);
  });

  test('users can be deleted or missing', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }]);
    await send(http, 'POST /users/1/posts', { json: { title: 'One' } });
    const page = await open(t, `${http}/#/users/1`);

    await t.test('a 404 of a proxy is not a deleted user, and keeps the unsaved text', async () => {
      const unsaved = page.locator('#edit-name');
      await unsaved.fill('Ada L');
      const notFound = { status: 404, contentType: 'text/html', body: '<h1>Not Found</h1>' };
      await page.route('**/users/1', (route) => route.fulfill(notFound));
      await page.locator('#edit-delete').click();
      await page.getByRole('button', { name: 'Delete user' }).click();
      await page.getByRole('dialog').getByText('The server answered 404').waitFor();
      await page.keyboard.press('Escape');
      page.once('dialog', (dialog) => void dialog.accept());
      await page.reload();
      await page.getByText('The user could not be read').waitFor();
      await page.unroute('**/users/1');
      await page.locator('#detail').getByRole('button', { name: 'Try again' }).click();
      await unsaved.waitFor();
      assert.equal(await unsaved.inputValue(), 'Ada L');
    });

    await t.test(
      'the unsaved text about a user and its posts is forgotten when the person deletes the user',
      async () => {
        await page.locator('#edit-name').fill('Ada L');
        await page.getByText('Write a post').click();
        await page.locator('#post-title').fill('Two');
        await page.getByRole('button', { name: 'Edit One' }).click();
        await page.locator('#post-edit-title').fill('First');
        const names = () => page.evaluate<string[]>('Object.keys(sessionStorage)');
        assert.equal((await names()).length, 3);
        await page.locator('#edit-delete').click();
        await page.getByRole('button', { name: 'Delete user' }).click();
        await announced(page, 'Deleted Ada');
        await page.locator('#detail').waitFor({ state: 'hidden' });
        assert.deepEqual(await names(), []);
      },
    );

    await t.test('the address of a missing user shows a message with a way back to the list', async () => {
      await page.goto(`${http}/#/users/77`);
      await page.getByText('There is no user 77').waitFor();
      await page.getByRole('button', { name: 'Back to the list' }).click();
      await page.locator('#detail').waitFor({ state: 'hidden' });
    });

    await t.test('a user that is already deleted is reported as deleted', async () => {
      await page.goto(`${http}/#/users/2`);
      await page.getByRole('button', { name: 'Delete…' }).click();
      await send(http, 'DELETE /users/2');
      await page.getByRole('button', { name: 'Delete user' }).click();
      await announced(page, 'Bob (user 2) was already deleted');
      await page.getByText('No users yet').waitFor();
    });
  });
});
