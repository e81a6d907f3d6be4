import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { type Answer, send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  holdRequests,
  holdResponses,
  intercept,
  openUser,
  recordRequests,
  save,
  settled,
} from './people.ts';
import { startService } from './service.ts';

suite('console: editing posts', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('posts of a user can be changed and deleted', async (t) => {
    // Changes of other clients then conflict only when the form is saved.
    const { http } = await startService(t, { changesKept: false });
    await addUsers(http, [{ name: 'Bob' }]);
    const page = await open(t, `${http}/`);
    const form = page.getByRole('form', { name: 'Edit post' });
    const edit = page.getByRole('button', { name: 'Edit On engines' });
    /** Opens a new user with one post, or with two. */
    const openNew = async (...more: string[]) => {
      const { headers } = await send(http, 'POST /users', { json: { name: 'Ada' } });
      const add = async (json: object) =>
        (await send(http, `POST ${headers.location}/posts`, { json })).headers.location ?? '';
      const first = await add({ title: 'On engines', body: 'one\ntwo' });
      const [second] = await Promise.all(more.map((title) => add({ title })));
      await page.goto(`${http}/#${headers.location}`);
      await page.getByText(`User ${headers.location?.slice('/users/'.length)} · version 1`).waitFor();
      const [userId, id] = first.match(/\d+/g)?.map(Number) ?? [];
      return { ids: { id, userId }, first, second };
    };

    await t.test(
      'a saved post stays in its place, and the request has only the changed fields and the shown version',
      async () => {
        const { ids, first } = await openNew();
        const requests = recordRequests(page);
        await edit.click();
        await page.locator('#post-edit-title:focus').waitFor();
        assert.equal(await form.getByLabel('Text').inputValue(), 'one\ntwo');
        assert.equal(await form.getByRole('button', { name: 'Save' }).getAttribute('aria-disabled'), 'true');
        await save(form, { Text: 'three\tfour' });
        await announced(page, 'Saved On engines');
        await form.waitFor({ state: 'hidden' });
        assert.equal(await page.locator('.post-body').textContent(), 'three\tfour');
        await page.locator('[data-part="edit"]:focus').waitFor();
        const patch = requests.find((request) => request.method() === 'PATCH');
        assert.equal(patch?.headers()['if-match'], '"1"');
        assert.deepEqual(patch?.postDataJSON(), { body: 'three\tfour' });
        assert.deepEqual(await readPost(http, first), { ...ids, title: 'On engines', body: 'three\tfour' });
      },
    );

    await t.test(
      'a post that is being opened is dimmed, and so are the others while they are read again',
      async () => {
        const { ids, first } = await openNew('Second');
        const dimmed = async () => {
          const opacities = await page.evaluate(
            '[...document.querySelectorAll(".post")].map((post) => getComputedStyle(post).opacity)',
          );
          return (opacities as string[]).map((opacity) => opacity !== '1');
        };
        const post = await holdResponses(page, `**${first}`);
        await edit.click();
        await post.reached;
        assert.deepEqual(await dimmed(), [false, true]);
        post.release();
        await form.waitFor();
        assert.deepEqual(await dimmed(), [false, false]);
        const posts = await holdResponses(page, `**/users/${ids.userId}/posts?*`);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await posts.reached;
        assert.deepEqual(await dimmed(), [true, false]);
        posts.release();
        await page.locator('#post-list[aria-busy="false"]').waitFor();
        assert.deepEqual(await dimmed(), [false, false]);
      },
    );

    await t.test(
      'a post that is opened twice during a slow read stays dimmed, and is read once',
      async () => {
        const { first } = await openNew();
        const requests = recordRequests(page);
        const post = await holdResponses(page, `**${first}`);
        await edit.click();
        await post.reached;
        await edit.click();
        assert.equal(await page.locator('.post[aria-busy="true"]').count(), 1);
        assert.equal(requests.filter((request) => request.url().endsWith(first)).length, 1);
        post.release();
        await form.waitFor();
        assert.equal(await page.locator('.post[aria-busy="true"]').count(), 0);
      },
    );

    await t.test('the problem of a post is not shown for the unsaved text of another one', async () => {
      await openNew('Second');
      await page.getByRole('button', { name: 'Edit Second' }).click();
      await form.getByLabel('Text').fill('unsaved');
      await form.getByRole('button', { name: 'Close' }).click();
      await edit.click();
      await save(form, { Title: '' });
      await form.getByText('Title must').waitFor();
      await form.getByRole('button', { name: 'Close' }).click();
      await page.getByRole('button', { name: 'Edit Second' }).click();
      await form.waitFor();
      assert.equal(await form.getByLabel('Text').inputValue(), 'unsaved');
      assert.equal(await form.getByText('Title must').count(), 0);
    });

    await t.test('changes of different fields of a post are merged without a dialog', async () => {
      const { ids, first } = await openNew();
      await edit.click();
      await form.waitFor();
      await changePost(http, first, { title: 'Renamed by another' });
      await save(form, { Text: 'mine' });
      await announced(page, 'Saved Renamed by another, with another person’s change to the title');
      await page.getByRole('heading', { name: 'Renamed by another' }).waitFor();
      assert.deepEqual(await readPost(http, first), { ...ids, title: 'Renamed by another', body: 'mine' });
    });

    await t.test('two changes of the same field of a post are shown for a choice', async () => {
      const { ids, first } = await openNew();
      await edit.click();
      await form.waitFor();
      await changePost(http, first, { title: 'Theirs', body: '' });
      await save(form, { Title: 'Mine', Text: 'mine\n'.repeat(200) });
      const dialog = page.getByRole('dialog', { name: 'Which change should be kept?' });
      // A long text must not move the other text and the buttons out of view.
      for (const shown of [dialog.getByLabel('Theirs none'), dialog.getByRole('button', { name: 'Save' })]) {
        const { y = Number.NaN } = (await shown.boundingBox()) ?? {};
        assert.ok(y < 900, `${y}`);
      }
      await dialog.getByRole('group', { name: 'title' }).getByLabel('Yours Mine').check();
      await dialog.getByRole('group', { name: 'text' }).getByLabel('Theirs none').check();
      assert.deepEqual(await readPost(http, first), { ...ids, title: 'Theirs', body: '' }, 'not saved yet');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await announced(page, 'Saved Mine');
      assert.deepEqual(await readPost(http, first), { ...ids, title: 'Mine', body: '' });
    });

    await t.test(
      'text typed into a post that was reopened while it was being saved stays, and can be saved',
      async () => {
        const { ids, first } = await openNew();
        const release = await holdRequests(page, 'PATCH', `**${first}`);
        await edit.click();
        await save(form, { Title: 'Second' });
        await page.keyboard.press('Escape');
        await form.waitFor({ state: 'hidden' });
        await edit.click();
        await form.getByLabel('Title').fill('Third');
        release();
        await announced(page, 'Saved Second');
        assert.equal(await form.getByLabel('Title').inputValue(), 'Third');
        assert.equal(await form.getByText('Another person').isVisible(), false);
        await save(form, {});
        await announced(page, 'Saved Third');
        assert.deepEqual(await readPost(http, first), { ...ids, title: 'Third', body: 'one\ntwo' });
      },
    );

    await t.test(
      'a rejected change of a post shows the reason beside its field, and can be discarded',
      async () => {
        await openNew();
        await edit.click();
        await save(form, { Title: ' ' });
        await form.getByRole('textbox', { description: 'Title must not be blank.' }).waitFor();
        await form.getByRole('button', { name: 'Discard' }).click();
        assert.equal(await form.getByLabel('Title').inputValue(), 'On engines');
        assert.equal(await form.locator('.field-error').count(), 0);
        assert.equal(await form.getByText('Unsaved, but kept').isVisible(), false);
      },
    );

    await t.test(
      'an unsaved change of a post is marked, and survives opening another user and a reload',
      async () => {
        const { ids, first } = await openNew();
        await edit.click();
        await form.getByLabel('Title').fill('Mine');
        await form.getByLabel('Text').fill('mine');
        await form.getByText('Unsaved, but kept').waitFor();
        await page.keyboard.press('Escape');
        await form.waitFor({ state: 'hidden' });
        await page.getByRole('heading', { name: 'Ada' }).waitFor();
        await page.locator('.post').getByText('Unsaved').waitFor();
        await page.locator('[data-part="edit"]:focus').waitFor();
        await openUser(page, 'Bob');
        const mark = page.locator(`tr[data-id="${ids.userId}"]`).getByText('Unsaved');
        await changePost(http, first, { title: 'Theirs', body: 'theirs' });
        await page.goto(`${http}/#/users/${ids.userId}`);
        await page.reload();
        await page.locator('.post').getByText('Unsaved').waitFor();
        await mark.waitFor();
        await page.getByRole('button', { name: 'Edit Theirs' }).click();
        await form.getByText('Another person changed: title, text').waitFor();
        await page.setViewportSize({ width: 360, height: 740 });
        const lineHeight = await form.locator('.unsaved').evaluate((line) => line.clientHeight);
        assert.ok(lineHeight < 30, `the names of both fields must fit into one line, not ${lineHeight} px`);
        await page.setViewportSize({ width: 1280, height: 900 });
        assert.equal(await form.getByLabel('Title').inputValue(), 'Mine');
        await form.getByRole('button', { name: 'Discard' }).click();
        assert.equal(await form.getByLabel('Title').inputValue(), 'Theirs');
        await form.getByRole('button', { name: 'Close' }).click();
        await page.locator('.post .unsaved:empty').waitFor({ state: 'attached' });
        assert.equal(await mark.count(), 0);
      },
    );

    await t.test(
      'a post is deleted after a confirmation, and not before its new version is shown',
      async () => {
        const { first } = await openNew();
        await edit.click();
        await form.waitFor();
        await changePost(http, first, { title: 'Theirs' });
        await form.getByRole('button', { name: 'Delete…' }).click();
        const dialog = page.getByRole('dialog', { name: 'Delete this post?' });
        await dialog.getByText('On engines').waitFor();
        await dialog.getByRole('button', { name: 'Delete post' }).click();
        await dialog.getByText('changed after you opened it').waitFor();
        await dialog.getByText('Theirs').waitFor();
        assert.equal((await send(http, `GET ${first}`)).status, 200);
        await dialog.getByRole('button', { name: 'Delete post' }).click();
        await announced(page, 'Deleted Theirs');
        await page.getByText('No posts yet').waitFor();
        await page.locator('#posts-heading:focus').waitFor();
        assert.equal((await send(http, `GET ${first}`)).status, 404);
      },
    );

    await t.test(
      'a post that is already deleted is reported as deleted, and removed from the list',
      async () => {
        const { first, second } = await openNew('Second');
        await edit.click();
        await form.waitFor();
        await changePost(http, first, { title: 'Theirs' });
        // The page reads the post because its version is rejected. The post is deleted before that read.
        await intercept(page, 'GET', `**${first}`, async (route) => {
          await send(http, `DELETE ${first}`);
          await route.continue();
        });
        await form.getByRole('button', { name: 'Delete…' }).click();
        await page.getByRole('button', { name: 'Delete post' }).click();
        await announced(page, 'On engines was already deleted');
        await send(http, `DELETE ${second}`);
        const { reached, release } = await holdResponses(page, `**${second}`);
        await page.getByRole('button', { name: 'Edit Second' }).click();
        await reached;
        await page.locator('#edit-name').focus();
        release();
        await announced(page, 'Second was already deleted');
        await page.getByText('No posts yet').waitFor();
        await page.locator('#edit-name:focus').waitFor();
      },
    );

    for (const [title, method] of [
      ['response to a cancelled deletion', 'DELETE'],
      ['newer version for a cancelled deletion', 'GET'],
    ] as const) {
      await t.test(`a late ${title} does not change the dialog of another post`, async () => {
        // No other test deletes a post with this title.
        const other = `After ${method}`;
        const { first, second } = await openNew(other);
        const dialog = page.getByRole('dialog', { name: 'Delete this post?' });
        await edit.click();
        await form.getByRole('button', { name: 'Delete…' }).click();
        await dialog.getByText('On engines').waitFor();
        if (method === 'GET') await changePost(http, first, { title: 'Theirs' });
        const { reached, release, answered } = await holdResponses(page, `**${first}`, method);
        await dialog.getByRole('button', { name: 'Delete post' }).click();
        await reached;
        await dialog.getByRole('button', { name: 'Cancel' }).click();
        await form.getByRole('button', { name: 'Close' }).click();
        await page.getByRole('button', { name: `Edit ${other}` }).click();
        await form.getByRole('button', { name: 'Delete…' }).click();
        await dialog.getByText(other).waitFor();
        release();
        await answered;
        await settled(page);
        await dialog.getByRole('button', { name: 'Delete post' }).click();
        await announced(page, `Deleted ${other}`);
        assert.equal((await send(http, `GET ${second}`)).status, 404);
      });
    }

    await t.test('a post for a deleted user cannot be added', async () => {
      // Without the feed of changes, the page does not know that the user is deleted.
      const { ids } = await openNew();
      await page.getByText('Write a post').click();
      await send(http, `DELETE /users/${ids.userId}`);
      const compose = page.getByRole('form', { name: 'New post' });
      await compose.getByLabel('Title').fill('Too late');
      await compose.getByRole('button', { name: 'Add post' }).click();
      await compose.getByText(`User ${ids.userId} not found`).waitFor();
    });
  });
});

/** Changes a post without the page. */
function changePost(http: string, path: string, patch: object): Promise<Answer> {
  return send(http, `PATCH ${path}`, { json: patch });
}

async function readPost(http: string, path: string): Promise<unknown> {
  return (await send(http, `GET ${path}`)).json;
}
