import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addPosts,
  addUsers,
  announced,
  holdRequests,
  holdResponses,
  openUser,
  recordRequests,
  styleOf,
  waitPatiently,
} from './people.ts';
import { startService } from './service.ts';

/** Adds the post "Mine" while the posts are read again. Returns a function that lets the response arrive. */
async function addDuringRead(page: Page, user: string): Promise<() => void> {
  const { reached, release } = await holdResponses(page, `**${user}/posts?*`);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await reached;
  await page.getByText('Write a post').click();
  await page.getByRole('form', { name: 'New post' }).getByLabel('Title').fill('Mine');
  await page.getByRole('button', { name: 'Add post' }).click();
  await announced(page, 'Added the post');
  return release;
}

const numberedPosts = (count: number) => Array.from({ length: count }, (_, i) => `post ${i + 1}`);

suite('console: posts', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('posts of users who are open one after another', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, ['Ada', 'Bob', 'Cy', 'Dee', 'Eve', 'Fay', 'Gus', 'Hal']);
    const page = await open(t, `${http}/`);

    /** Opens a user after adding these posts, without the messages of earlier tests on the page. */
    async function openAuthor(id: number, titles: readonly string[] = []) {
      const user = `/users/${id}`;
      const posts = await addPosts(http, user, titles);
      await page.evaluate("document.querySelector('#toasts').replaceChildren()");
      await page.goto(`${http}/#${user}`);
      await page.getByText(`User ${id} · version`).waitFor();
      return { user, posts };
    }

    await t.test('a new post keeps its whitespace, is shown first, and focuses the empty title', async () => {
      await openAuthor(1, ['An older one']);
      const requests = recordRequests(page);
      await page.getByText('Write a post').click();
      const form = page.getByRole('form', { name: 'New post' });
      await form.getByLabel('Title').fill('On engines');
      await form.getByLabel('Text').fill('one\ttab\n  two');
      await form.getByRole('button', { name: 'Add post' }).click();
      await announced(page, 'Added the post');
      assert.deepEqual(await page.locator('.post h4').allTextContents(), ['On engines', 'An older one']);
      assert.equal(await page.locator('.post-body').first().textContent(), 'one\ttab\n  two');
      assert.equal(await styleOf(page, '.post-body', 'whiteSpaceCollapse'), 'preserve');
      assert.equal(await form.locator('[name=title]:focus').inputValue(), '');
      assert.equal(await form.getByText('Not added, but kept').isVisible(), false);
      const post = requests.find((request) => request.method() === 'POST');
      assert.match(post?.headers()['idempotency-key'] ?? '', /^[0-9a-f-]{36}$/);
      assert.deepEqual(post?.postDataJSON(), { title: 'On engines', body: 'one\ttab\n  two' });
    });

    await t.test('more posts are shown on request, starting at the first new one', async () => {
      const requests = recordRequests(page);
      const { user, posts } = await openAuthor(2, numberedPosts(14));
      await page.getByRole('heading', { name: 'post 14' }).waitFor();
      await send(http, `DELETE ${posts[13]}`);
      const { reached, release } = await holdResponses(page, `**${user}/posts?*`);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await reached;
      // The button does not replace the read of the first page.
      await page.getByRole('button', { name: 'Show more' }).click();
      release();
      await page.getByRole('heading', { name: 'post 14' }).waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Show more' }).click();
      await page.getByRole('heading', { name: 'post 1', exact: true }).waitFor();
      await page.locator('.post:focus', { hasText: 'post 3' }).waitFor();
      assert.equal(await page.locator('.post').count(), 13);
      await page.getByRole('button', { name: 'Show more' }).waitFor({ state: 'hidden' });
      // As many as are shown are read again. The oldest stays listed while it is edited.
      await page.getByRole('button', { name: 'Edit post 1', exact: true }).click();
      await page.locator('#post-edit-title:focus').waitFor();
      for (const title of ['post 15', 'post 16']) await send(http, `POST ${user}/posts`, { json: { title } });
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByRole('heading', { name: 'post 16' }).waitFor();
      assert.equal(await page.locator('.post').count(), 14);
      await page.getByRole('button', { name: 'Show more' }).click();
      await page.locator('.post:focus', { hasText: 'post 2' }).waitFor();
      const limits = requests
        .filter((request) => request.url().includes('/posts?'))
        .map((request) => new URL(request.url()).searchParams.get('limit'));
      assert.deepEqual(limits, ['10', '10', '10', '13', '10']);
      const titles = await page.locator('.post h4').allTextContents();
      assert.deepEqual(titles.slice(-4), ['post 4', 'post 3', 'post 2', 'post 1']);
    });

    await t.test('a long post shows its first lines, and all of them on request', async () => {
      const { user } = await openAuthor(8);
      await page.getByText('No posts yet').waitFor();
      const posts: string[] = [];
      for (const body of ['a\n'.repeat(8), 'a\n'.repeat(9), 'word '.repeat(120)])
        posts.push(...(await addPosts(http, user, ['Long'], body)));
      await page.getByRole('button', { name: 'Show 3 new posts' }).click();
      await page.locator('.post').nth(2).waitFor();
      const isCut = () =>
        page
          .locator('.post-body')
          .evaluateAll((all) => all.map((body) => body.scrollHeight > body.clientHeight));
      const buttons = page.locator('.post summary', { hasText: 'Whole text' });
      for (const [width, cut] of [
        [360, [true, true, false]],
        [960, [false, true, false]],
        [1280, [true, true, false]],
      ] as const) {
        await page.setViewportSize({ width, height: 900 });
        assert.deepEqual(await isCut(), cut, `${width} px`);
        for (const [i, hasButton] of cut.entries())
          await buttons.nth(i).waitFor({ state: hasButton ? 'visible' : 'hidden' });
      }
      await buttons.nth(1).focus();
      await page.keyboard.press('Enter');
      assert.deepEqual(await isCut(), [true, false, false]);
      await send(http, `PATCH ${posts[1]}`, { json: { title: 'Longer' } });
      await page.getByRole('heading', { name: 'Longer' }).waitFor();
      assert.deepEqual(await isCut(), [true, false, false], 'a change of the post does not fold it');
      const read = page.waitForResponse(`**${user}/posts?*`);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await read;
      await page.locator('#post-list[aria-busy="false"]').waitFor();
      assert.deepEqual(await isCut(), [true, false, false], 'reading the posts again does not fold it');
    });

    await t.test('the button for more posts leaves the focus on the heading if none are left', async () => {
      const { posts } = await openAuthor(3, numberedPosts(11));
      await page.getByRole('button', { name: 'Show more' }).focus();
      await send(http, `DELETE ${posts[0]}`);
      await page.keyboard.press('Enter');
      await page.locator('#posts-heading:focus').waitFor();
      assert.equal(await page.locator('#posts-more').isVisible(), false);
    });

    await t.test(
      'a rejected post shows the reason and stays in its form, also after opening another user',
      async () => {
        const { user } = await openAuthor(4);
        await page.getByText('No posts yet').waitFor();
        await page.getByText('Write a post').click();
        const form = page.getByRole('form', { name: 'New post' });
        await form.getByLabel('Title').fill('   ');
        await form.getByLabel('Text').fill('long thoughts');
        await form.getByRole('button', { name: 'Add post' }).click();
        await form.getByText('Title must not be blank.').waitFor();
        await form.getByText('Not added, but kept').waitFor();
        await openUser(page, 'Gus');
        await form.waitFor({ state: 'hidden' });
        await openUser(page, 'Dee');
        await form.waitFor();
        assert.equal(await form.getByLabel('Text').inputValue(), 'long thoughts');
        const release = await holdRequests(page, 'POST', `**${user}/posts`);
        await form.getByRole('button', { name: 'Add post' }).click();
        await openUser(page, 'Gus');
        release();
        await announced(page, 'The post was not added: Title must not be blank.');
      },
    );

    await t.test(
      'text typed while the response to a new post is late stays, and the post is shown once',
      async () => {
        const { user } = await openAuthor(5);
        const { reached, release } = await holdResponses(page, `**${user}/posts`, 'POST');
        await page.getByText('Write a post').click();
        const form = page.getByRole('form', { name: 'New post' });
        await form.getByLabel('Title').fill('First');
        await form.getByRole('button', { name: 'Add post' }).click();
        await reached;
        await openUser(page, 'Gus');
        await form.waitFor({ state: 'hidden' });
        await openUser(page, 'Eve');
        await page.locator('.post').waitFor();
        await form.getByLabel('Title').fill('Second');
        release();
        await announced(page, 'Added the post');
        assert.equal(await form.getByLabel('Title').inputValue(), 'Second');
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['First']);
        const mark = page.locator('tr[data-id="5"]').getByText('Unsaved');
        assert.equal(await mark.count(), 1);
        await form.getByRole('button', { name: 'Add post' }).click();
        await page.locator('.post').nth(1).waitFor();
        assert.equal(await form.getByLabel('Title').inputValue(), '');
        assert.equal(await mark.count(), 0);
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Second', 'First']);
      },
    );

    await t.test(
      'posts that are added, saved and deleted while the posts are read again stay so',
      async () => {
        const { user } = await openAuthor(6, ['One', 'Two', 'Three']);
        await page.locator('.post').first().waitFor();
        const release = await addDuringRead(page, user);
        const form = page.getByRole('form', { name: 'Edit post' });
        await page.getByRole('button', { name: 'Edit Two' }).click();
        await form.getByRole('button', { name: 'Delete…' }).click();
        await page.getByRole('button', { name: 'Delete post' }).click();
        await announced(page, 'Deleted Two');
        await page.getByRole('button', { name: 'Edit One' }).click();
        await form.getByLabel('Title').fill('First');
        await page.keyboard.press('Enter');
        await announced(page, 'Saved First');
        // The form of this post stays open, although the post was changed during the read.
        await page.getByRole('button', { name: 'Edit First' }).click();
        await form.getByLabel('Title').fill('Typed');
        release();
        await page.locator('#post-list[aria-busy="false"]').waitFor({ state: 'attached' });
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Mine', 'Three', 'First']);
        assert.equal(await form.locator('[name=title]:focus').inputValue(), 'Typed');
        await page.keyboard.press('Enter');
        await announced(page, 'Saved Typed');
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Mine', 'Three', 'Typed']);
      },
    );

    await t.test(
      'a first post that is added while the posts are read again replaces the note that there are none',
      async () => {
        const { user } = await openAuthor(7);
        await page.getByText('No posts yet').waitFor();
        const release = await addDuringRead(page, user);
        release();
        await page.locator('#post-list[aria-busy="false"]').waitFor({ state: 'attached' });
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Mine']);
        assert.equal(await page.getByText('No posts yet').isVisible(), false);
      },
    );

    await t.test('another user who is opened cancels the read of posts before it', async () => {
      await waitPatiently(page);
      await page.route('**/users/6/posts?*', () => undefined);
      const cancelled = page.waitForEvent('requestfailed', (request) =>
        request.url().includes('/users/6/posts'),
      );
      await openAuthor(6);
      await openAuthor(7);
      await cancelled;
      await page.unroute('**/users/6/posts?*');
    });
  });
});
