import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Locator, Page, Request } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { loadModule, type MergeModule } from './modules.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  changeUser,
  holdRequests,
  intercept,
  readUser,
  recordMessages,
  recordRequests,
  responseRead,
  save,
  settled,
  showView,
  styleOf,
} from './people.ts';
import { startService } from './service.ts';

const { mergeFields } = loadModule<MergeModule>('console/edit/save.js');

suite('console: merging two changes of a user', () => {
  const base = { name: 'Ada', role: 'admin' };
  for (const [title, mine, theirs, merged, conflicts, others] of [
    ['of different fields', { name: 'B' }, { role: 'x' }, { name: 'B', role: 'x' }, [], ['role']],
    [
      'of the same field to the same value',
      { name: 'B' },
      { name: 'B' },
      { name: 'B', role: 'admin' },
      [],
      [],
    ],
    ['of the same field', { name: 'B' }, { name: 'C' }, { name: 'B', role: 'admin' }, ['name'], []],
    [
      'of both fields',
      { name: 'B', role: '' },
      { name: 'C', role: 'x' },
      { name: 'B', role: '' },
      ['name', 'role'],
      [],
    ],
    ['of which one removes a role', {}, { role: '' }, { name: 'Ada', role: '' }, [], ['role']],
    [
      'of one common field and another field',
      { name: 'B' },
      { name: 'C', role: 'x' },
      { name: 'B', role: 'x' },
      ['name'],
      ['role'],
    ],
  ] as const) {
    test(`changes ${title} are merged`, () => {
      const merge = mergeFields(base, { ...base, ...mine }, { ...base, ...theirs });
      assert.deepEqual(merge, { fields: merged, conflicts, theirs: others });
    });
  }
});

suite('console: conflicts', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('changes of the same user by two persons', async (t) => {
    const { http } = await startService(t, { changesKept: false });
    const page = await open(t, `${http}/`);
    /** Opens a new user, with a role or without one. */
    const openNew = async (role?: string) => {
      const { json } = await send(http, 'POST /users', { json: { name: 'Ada', role } });
      const { id } = json as { id: number };
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.locator(`tr[data-id="${id}"]`).waitFor();
      await page.goto(`${http}/#/users/${id}`);
      await page.getByText(`User ${id} · version 1`).waitFor();
      return id;
    };

    await t.test('changes of different fields of a user are merged without a dialog', async () => {
      const id = await openNew('admin');
      await changeUser(http, id, { name: 'Renamed by another' });
      const requests = recordRequests(page);
      await change(page, { Role: 'editor' });
      await announced(page, 'Saved Renamed by another, with another person’s change to the name');
      assert.deepEqual(await readUser(http, id), { id, name: 'Renamed by another', role: 'editor' });
      const patches = requests.filter((request) => request.method() === 'PATCH');
      assert.deepEqual(patches.at(-1)?.postDataJSON(), { role: 'editor' });
      assert.equal(patches.at(-1)?.headers()['if-match'], '"2"');
      await nameIs(page, id, 'Renamed by another');
      assert.equal(await page.locator('#edit-name').inputValue(), 'Renamed by another');
    });

    await t.test('the second of two windows shows both names, and can keep its own name', async (t) => {
      const id = await openNew('admin');
      const second = await open(t, page.url(), { beside: page });
      await second.getByText('version 1').waitFor();
      await change(page, { Name: 'Ada of window one' });
      await announced(page, 'Saved Ada of window one');
      await change(second, { Name: 'Ada of window two' });
      const dialog = conflictIn(second);
      await dialog.getByText('It was: Ada').waitFor();
      await dialog.getByLabel('Theirs Ada of window one').waitFor();
      assert.equal(
        await dialog.getByRole('group').count(),
        1,
        'only the field that both changed must be shown',
      );
      await choose(dialog, 'Yours Ada of window two');
      await announced(second, 'Saved Ada of window two');
      assert.deepEqual(await readUser(http, id), { id, name: 'Ada of window two', role: 'admin' });
      await nameIs(second, id, 'Ada of window two');
    });

    await t.test('choosing the other change does not save the user, and a message confirms it', async () => {
      const id = await openNew();
      await changeUser(http, id, { name: 'Theirs', role: 'editor' });
      await change(page, { Name: 'Mine' });
      await choose(conflictIn(page), 'Theirs Theirs');
      await announced(page, 'Kept the other change to Theirs; yours is discarded');
      await page.getByRole('heading', { name: 'Theirs' }).waitFor();
      assert.equal(await page.locator('#edit-name').inputValue(), 'Theirs');
      assert.equal(await page.locator('#edit-unsaved').isVisible(), false);
      assert.deepEqual(await readUser(http, id), { id, name: 'Theirs', role: 'editor' });
    });

    await t.test('each field in a conflict needs a separate choice, without a default', async () => {
      const id = await openNew('admin');
      await changeUser(http, id, { name: 'Theirs', role: 'editor' });
      await change(page, { Name: 'Mine', Role: '' });
      const dialog = conflictIn(page);
      await dialog.getByText(/^Another person has also changed Ada while/).waitFor();
      await dialog.getByLabel('Yours none').check();
      await dialog.getByRole('button', { name: 'Save' }).click();
      assert.equal(await dialog.locator('input:invalid').count(), 2, 'the name is not chosen yet');
      await choose(dialog, 'Theirs Theirs');
      await announced(page, 'Saved Theirs');
      assert.deepEqual(await readUser(http, id), { id, name: 'Theirs' });
    });

    await t.test(
      'another change during the choice is shown too, and is never overwritten unseen',
      async () => {
        const id = await openNew();
        await changeUser(http, id, { name: 'Second' });
        await change(page, { Name: 'Mine' });
        const dialog = conflictIn(page);
        await dialog.getByLabel('Theirs Second').waitFor();
        await changeUser(http, id, { name: 'Third' });
        await choose(dialog, 'Yours Mine');
        await dialog.getByText('It was: Second').waitFor();
        await dialog.getByLabel('Theirs Third').waitFor();
        await choose(dialog, 'Yours Mine');
        await announced(page, 'Saved Mine');
        assert.deepEqual(await readUser(http, id), { id, name: 'Mine' });
      },
    );

    await t.test(
      'text typed after a save that succeeded with an error response does not conflict with it',
      async () => {
        const id = await openNew();
        await page.route(
          `**/users/${id}`,
          async (route) => {
            await route.fetch();
            await route.fulfill({ status: 504, json: { error: 'no response' } });
          },
          { times: 1 },
        );
        await change(page, { Name: 'First' });
        await page.getByText('no response (504)').waitFor();
        await change(page, { Name: 'Second' });
        await announced(page, 'Saved Second');
        assert.deepEqual(await readUser(http, id), { id, name: 'Second' });
      },
    );

    await t.test('a save that succeeded with an error response is reported when it is read', async () => {
      const id = await openNew();
      await intercept(page, 'PATCH', `**/users/${id}`, async (route) => {
        await route.fetch();
        await route.fulfill({ status: 503, json: { error: 'no response' } });
      });
      await change(page, { Name: `Ada ${id}` });
      await page.getByText('no response (503)').waitFor();
      await page.locator('#edit-name').focus();
      const messages = await recordMessages(page);
      for (let reads = 0; reads < 2; reads += 1) {
        const read = responseRead(page, 'GET', `${http}/users/${id}`);
        await page.evaluate("document.querySelector('#refresh-button').click()");
        await read;
      }
      await announced(page, `Saved Ada ${id}`);
      await nameIs(page, id, `Ada ${id}`);
      await page.getByText('no response (503)').waitFor({ state: 'detached' });
      assert.deepEqual(await messages(), [`Saved Ada ${id}`]);
    });

    await t.test('text of a rejected save is not taken for a change of the page', async () => {
      const id = await openNew();
      await change(page, { Name: ' ', Role: 'editor' });
      await page.getByText('Name must not be blank').waitFor();
      await changeUser(http, id, { role: 'editor' });
      await change(page, { Name: 'Mine', Role: '' });
      await announced(page, 'Saved Mine, with another person’s change to the role');
      assert.deepEqual(await readUser(http, id), { id, name: 'Mine', role: 'editor' });
    });

    await t.test('two equal changes do not conflict', async () => {
      const id = await openNew();
      await changeUser(http, id, { name: 'Ada Lovelace' });
      await change(page, { Name: 'Ada Lovelace' });
      await announced(page, 'Saved Ada Lovelace');
      await page.getByText('version 2').waitFor();
    });

    await t.test(
      'a user and a post that conflict at the same time are asked about one after the other',
      async () => {
        const id = await openNew();
        const { headers } = await send(http, `POST /users/${id}/posts`, { json: { title: 'One' } });
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.getByRole('button', { name: 'Edit One' }).click();
        const post = page.getByRole('form', { name: 'Edit post' });
        await post.getByLabel('Title').fill('My title');
        await changeUser(http, id, { name: 'Their name' });
        await send(http, `PATCH ${headers.location}`, { json: { title: 'Their title' } });
        const release = await holdRequests(page, 'PATCH', `**/users/${id}`);
        await change(page, { Name: 'My name' });
        await post.getByRole('button', { name: 'Save' }).click();
        const dialog = conflictIn(page);
        await dialog.getByLabel('Theirs Their title').waitFor();
        const read = responseRead(page, 'GET', `${http}/users/${id}`);
        release();
        await read;
        await settled(page);
        await choose(dialog, 'Theirs Their title');
        await choose(dialog, 'Theirs Their name');
        await announced(page, 'Kept the other change to Their name');
        assert.deepEqual(await readUser(http, id), { id, name: 'Their name' });
      },
    );

    await t.test(
      'an edit that is resumed after a reload includes the other changes, or shows a conflict',
      async () => {
        const id = await openNew();
        await page.locator('#edit-name').fill('Mine');
        await changeUser(http, id, { role: 'editor' });
        await page.reload();
        await page.getByText('version 2').waitFor();
        assert.equal(await page.locator('#edit-name').inputValue(), 'Mine');
        assert.equal(await page.locator('#edit-role').inputValue(), 'editor');
        assert.equal(await page.locator('#edit-unsaved[data-conflict]').isVisible(), false);
        await changeUser(http, id, { name: 'Theirs' });
        await showView(page, '/');
        await page.locator('#detail').waitFor({ state: 'hidden' });
        await showView(page, `/users/${id}`);
        await page.getByText('Another person changed: name').waitFor();
        await page.getByRole('button', { name: 'Save' }).click();
        await conflictIn(page).waitFor();
        await page.getByRole('button', { name: 'Back to editing' }).click();
        await page.locator('#edit-name').fill('Ada');
        await page.getByRole('button', { name: 'Discard' }).click();
        assert.equal(await page.locator('#edit-name').inputValue(), 'Theirs');
        assert.equal(await page.locator('#edit-unsaved[data-conflict]').isVisible(), false);
      },
    );

    await t.test(
      'a rejected version that is still the latest one is shown as an error, and not sent again',
      async () => {
        const id = await openNew();
        const rejection = { status: 412, json: { error: 'the version was rejected' } };
        await intercept(page, 'PATCH', `**/users/${id}`, (route) => route.fulfill(rejection));
        const requests = recordRequests(page);
        await change(page, { Name: 'Countess' });
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByRole('alert').filter({ hasText: 'The version was rejected.' }).waitFor();
        assert.deepEqual(methodsOf(requests), ['PATCH', 'GET']);
        assert.equal(await form.getByLabel('Name').inputValue(), 'Countess');
      },
    );

    await t.test(
      'the conflict dialog can be closed without losing the typed text, and the form waits only after a choice',
      async () => {
        const id = await openNew();
        await changeUser(http, id, { name: 'Theirs' });
        await change(page, { Name: 'Mine' });
        const dialog = conflictIn(page);
        await dialog.waitFor();
        assert.equal(await textAfterActions(page), 'none');
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'hidden' });
        const form = page.getByRole('form', { name: 'Edit user' });
        assert.equal(await form.getByLabel('Name').inputValue(), 'Mine');
        await form.getByRole('button', { name: 'Save' }).click();
        await dialog.waitFor();
        assert.deepEqual(await readUser(http, id), { id, name: 'Theirs' });
        await page.route(`**/users/${id}`, () => undefined);
        await choose(dialog, 'Yours Mine');
        await dialog.waitFor({ state: 'hidden' });
        assert.equal(await textAfterActions(page), '"Waiting for the service…"');
      },
    );
  });

  // nginx weakens the tags of responses that it compresses. Apache and Caddy add the name of the coding.
  test('a change is saved behind a proxy that makes entity tags W/"1-gzip"', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, 'about:blank');
    await page.route('**/users/1', async (route) => {
      const response = await route.fetch();
      const { etag, ...headers } = response.headers();
      const altered = etag?.replace(/"(.*)"/, 'W/"$1-gzip"');
      await route.fulfill({ response, headers: { ...headers, ...(altered && { etag: altered }) } });
    });
    await page.goto(`${http}/#/users/1`);
    await page.getByText('User 1 · version 1').waitFor();
    await page.getByText('No posts yet').waitFor();
    await page.locator('#table-area[aria-busy="false"]').waitFor();
    const requests = recordRequests(page);
    await change(page, { Name: 'Countess' });
    await announced(page, 'Saved Countess');
    await page.getByText('version 2').waitFor();
    assert.deepEqual(methodsOf(requests), ['PATCH']);
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Countess' });
  });
});

/** Resolves when the table has this name for the user. */
async function nameIs(page: Page, id: number, name: string): Promise<void> {
  await page.locator(`tr[data-id="${id}"] th`, { hasText: name }).waitFor();
}

function textAfterActions(page: Page): Promise<string> {
  return styleOf(page, '#edit-form .actions::after', 'content');
}

function conflictIn(page: Page): Locator {
  return page.getByRole('dialog', { name: 'Which change should be kept?' });
}

function methodsOf(requests: readonly Request[]): string[] {
  return requests.map((request) => request.method());
}

function change(page: Page, fields: Readonly<Record<string, string>>): Promise<void> {
  return save(page.getByRole('form', { name: 'Edit user' }), fields);
}

async function choose(dialog: Locator, option: string): Promise<void> {
  await dialog.getByLabel(option).check();
  await dialog.getByRole('button', { name: 'Save' }).click();
}
