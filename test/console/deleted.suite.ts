import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import { addUsers, announced, isLive, openUser, showView } from './people.ts';
import { startService } from './service.ts';

suite('console: a user or post that is deleted while it is edited', {
  skip: noBrowser,
  concurrency: 2,
}, () => {
  const open = useBrowser();

  test('users and posts that another person deletes, on one page', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, ['Ada', 'Bob', 'Cy', 'Dee', 'Eve', 'Fay']);
    const page = await open(t, `${http}/`);
    await isLive(page);

    await t.test(
      'text typed for a user, a new post or an edited post stays visible when another person deletes the user',
      async () => {
        for (const [id, name, type] of [
          [1, 'Ada', () => page.locator('#edit-name').fill('A long text')],
          [
            2,
            'Bob',
            async () => {
              await page.getByText('Write a post').click();
              await page.locator('#post-body').fill('A long text');
            },
          ],
          [
            3,
            'Cy',
            async () => {
              await page.getByRole('button', { name: 'Edit One' }).click();
              await page.locator('#post-edit-body').fill('A long text');
            },
          ],
        ] as const) {
          await send(http, `POST /users/${id}/posts`, { json: { title: 'One' } });
          await openUser(page, name);
          await page.locator('#detail-heading', { hasText: name }).waitFor();
          await page.locator('#post-list > li').waitFor();
          await type();
          const typed = page.locator('#detail-content :is(input, textarea):focus');
          await send(http, `DELETE /users/${id}`);
          await page.getByRole('heading', { name: `User ${id} was deleted` }).waitFor();
          assert.equal(await typed.inputValue(), 'A long text');
          for (const label of ['Save', 'Add post', 'Delete…', 'Edit One']) {
            const button = page.locator('#detail').getByRole('button', { name: label });
            assert.equal(await button.count(), 0, `${label} is shown, but would fail`);
          }
          const compose = page.getByText('Write a post');
          assert.equal(await compose.isVisible(), name === 'Bob', 'shown only with text of a new post');
          // The text is not taken for that of another user.
          await page.goto(`${http}/#/users/7`);
          await page.getByText('There is no user 7').waitFor();
          assert.equal(await page.locator('#detail-content').isVisible(), false);
          await page.goto(`${http}/#/users/4`);
          await page.locator('#detail').getByRole('button', { name: 'Delete…' }).first().waitFor();
        }
      },
    );

    await t.test(
      'text typed for a post stays when another person deletes the post, also when it is opened again',
      async () => {
        for (const title of ['One', 'Two']) await send(http, 'POST /users/5/posts', { json: { title } });
        await showView(page, '/users/5');
        await page.getByRole('button', { name: 'Edit One' }).click();
        const form = page.getByRole('form', { name: 'Edit post' });
        await form.getByLabel('Text').fill('A long text');
        await send(http, 'DELETE /users/5/posts/4');
        const note = form.getByText('Another person has deleted this post. You can still copy your text.');
        const check = async () => {
          await note.waitFor();
          assert.equal(await form.getByLabel('Text').inputValue(), 'A long text');
          assert.deepEqual(await form.getByRole('button').allTextContents(), ['Close', 'Discard']);
        };
        await check();
        await form.getByRole('button', { name: 'Close' }).click();
        await page.locator('.post .changed').getByText('Deleted', { exact: true }).waitFor();
        await page.getByRole('button', { name: 'Edit One' }).click();
        await check();
        await form.getByRole('button', { name: 'Discard' }).click();
        await form.getByRole('button', { name: 'Close' }).click();
        await page.getByRole('button', { name: 'Edit One' }).click();
        await announced(page, 'One was already deleted');
        await page.getByRole('button', { name: 'Edit Two' }).click();
        await form.getByRole('button', { name: 'Save' }).waitFor();
        assert.equal(await note.isVisible(), false);
      },
    );

    await t.test(
      'a post that is opened without a change of its text closes when another person deletes it',
      async () => {
        await send(http, 'POST /users/6/posts', { json: { title: 'One' } });
        await showView(page, '/users/6');
        await page.getByRole('button', { name: 'Edit One' }).click();
        await page.locator('#post-edit-title:focus').waitFor();
        await send(http, 'DELETE /users/6/posts/6');
        await announced(page, 'One was deleted');
        await page.locator('.post', { hasText: 'Deleted' }).locator('button:focus').waitFor();
        assert.equal(await page.getByRole('form', { name: 'Edit post' }).isVisible(), false);
      },
    );
  });

  test('text typed for a deleted user is shown after a reload, and can be discarded', async (t) => {
    const { http } = await startService(t, { changesKept: false });
    await addUsers(http, [{ name: 'Ada', role: 'admin' }]);
    const page = await open(t, `${http}/#/users/1`);
    const name = page.getByRole('form', { name: 'Edit user' }).getByLabel('Name');
    await name.fill('A long text');
    await send(http, 'DELETE /users/1');
    await page.reload();
    await page.getByRole('heading', { name: 'User 1 was deleted' }).waitFor();
    assert.equal(await name.inputValue(), 'A long text');
    const failure = page.getByText('The posts could not be read');
    await failure.waitFor({ state: 'attached' });
    assert.equal(await failure.isVisible(), false, 'the missing posts are reported as a failure');
    await page.getByRole('button', { name: 'Discard' }).click();
    await showView(page, '/');
    await page.locator('#detail').waitFor({ state: 'hidden' });
    await showView(page, '/users/1');
    await page.getByText('There is no user 1').waitFor();
    assert.equal(await page.evaluate('sessionStorage.length'), 0);
  });
});
