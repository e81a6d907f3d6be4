import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import type { Repository } from '../../src/domain/repository.ts';
import { createMemoryStore } from '../../src/storage/memory/store.ts';
import { noBrowser } from '../kit/browser.ts';
import { until } from '../kit/until.ts';
import { send } from '../support/client.ts';
import { expectAway, useBrowser } from './pages.ts';
import {
  addPosts,
  addUsers,
  advance,
  announced,
  changeUser,
  firstNameIs,
  holdResponses,
  intercept,
  isLive,
  numbered,
  openUser,
  readUser,
  recordMessages,
  recordRequests,
  settled,
  showView,
  styleOf,
} from './people.ts';
import { startRestartable, startService } from './service.ts';

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
// waitForFunction would evaluate a string in the page, which its policy forbids.
const hasText = (field: Locator, text: string) =>
  until(async () => (await field.inputValue()) === text, `the field has the text ${text}`);

/** Lets a test hide the page, which ends its connection, and show it again. */
const hiding = `
  let hidden = false;
  Object.defineProperty(document, 'hidden', { get: () => hidden });
  globalThis.hide = (value) => { hidden = value; document.dispatchEvent(new Event('visibilitychange')); };
`;

/** Lets the page receive its responses byte by byte. */
const bytewise = `
  const { fetch } = globalThis;
  globalThis.fetch = async (...request) => {
    const response = await fetch(...request);
    const transform = (bytes, stream) => bytes.forEach((byte) => stream.enqueue(Uint8Array.of(byte)));
    return new Response(response.body?.pipeThrough(new TransformStream({ transform })), response);
  };
`;

suite('console: changes of other users', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  /** A page that shows ten users and follows their changes. */
  const openLive = async (t: TestContext) => {
    const { http, events } = await startService(t);
    await addUsers(http, ['Ada', 'Bob', 'Cy', 'Eve', 'Fay', 'Gus', 'Hal', 'Ian', 'Jan', 'Kim']);
    const page = await open(t, `${http}/`, { initScript: hiding });
    /** Shows the list or a user after adding these posts, without the marks and counts of earlier tests. */
    const show = async (id?: number, titles: readonly string[] = []) => {
      const user = id === undefined ? '/' : `/users/${id}`;
      const posts = await addPosts(http, user, titles);
      await showView(page, user);
      await page.evaluate("hide(false); document.querySelector('#refresh-button').click()");
      await page.locator('#table-area[aria-busy="false"]').waitFor();
      if (id !== undefined) await page.getByText(`User ${id} · version`).waitFor();
      await isLive(page);
      return { user, posts };
    };
    /** Lets the page miss a change, so that it reads everything again. */
    const miss = async (change: () => Promise<unknown>) => {
      await page.evaluate('hide(true)');
      await change();
      const gone = { status: 410, json: { error: 'gone' } };
      await page.route('**/changes', (route) => route.fulfill(gone), { times: 1 });
      await page.evaluate('hide(false)');
    };
    /** Resolves when the page has received all changes until now. It then counts one new user. */
    const caughtUp = async () => {
      await send(http, 'POST /users', { json: { name: 'Lou' } });
      await page.getByText('Live · 1 new').waitFor();
    };
    /** How many connections for changes have ended. */
    const ended = () => events.filter((event) => event.type === 'request' && event.longLived).length;
    return { http, page, show, miss, caughtUp, ended };
  };

  test('changes of users on a page that shows one after another', async (t) => {
    const { http, page, show, miss, caughtUp, ended } = await openLive(t);

    await t.test(
      'changes appear in the table with a mark, without moving rows, also on a phone',
      async (t) => {
        await show();
        t.after(() => page.setViewportSize({ width: 1280, height: 900 }));
        await page.setViewportSize({ width: 375, height: 900 });
        const top = async () => (await page.locator('#user-rows tr:last-child').boundingBox())?.y;
        const before = await top();
        await send(http, 'PATCH /users/1', { json: { name: 'Zoe', role: 'admin' } });
        await row(page, 'Zoe').getByText('Changed').waitFor();
        await row(page, 'Zoe').getByText('admin').waitFor();
        await send(http, 'DELETE /users/2');
        await row(page, 'Bob').getByText('Deleted').waitFor();
        await send(http, 'POST /users', { json: { name: 'Dee' } });
        await page.getByText('Live · 1 new').waitFor();
        assert.equal(await top(), before);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await row(page, 'Dee').waitFor();
        assert.equal(await page.locator('#feed-state').textContent(), 'Live');
        assert.equal(await row(page, 'Bob').count(), 0);
      },
    );

    await t.test('a click on a name or a role opens the user who is changed during the click', async () => {
      for (const target of ['a', '.pill']) {
        await changeUser(http, 1, { role: 'member' });
        await show();
        const place = page.locator('tr[data-id="1"]');
        await place.locator(target).hover();
        await page.mouse.down();
        await changeUser(http, 1, { name: `By ${target}`, role: 'admin' });
        await place.getByText('admin').waitFor();
        await page.mouse.up();
        await page.getByText('User 1 · version').waitFor();
      }
    });

    await t.test(
      'changes appear in the open user without losing typed text, and show a conflict before it is saved',
      async (t) => {
        t.after(() => page.setViewportSize({ width: 1280, height: 900 }));
        await show(4);
        await page.setViewportSize({ width: 360, height: 900 });
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByLabel('Name').fill('Eve L');
        const save = form.getByRole('button', { name: 'Save' });
        const places = async () => [
          await save.boundingBox(),
          await page.locator('#posts-heading').boundingBox(),
        ];
        const before = await places();
        await send(http, 'PATCH /users/4', { json: { role: 'admin' } });
        const facts = page.getByRole('status').filter({ hasText: 'version 2, by another person' });
        await facts.waitFor();
        assert.ok(await facts.evaluate((shown) => shown.scrollWidth <= shown.clientWidth), 'nothing is cut');
        assert.equal(await form.getByLabel('Role').inputValue(), 'admin');
        assert.equal(await form.getByLabel('Name').inputValue(), 'Eve L');
        assert.equal(await form.getByText('Another person changed').isVisible(), false);
        await send(http, 'PATCH /users/4', { json: { name: 'Eva' } });
        const note = form.getByRole('status').filter({ hasText: 'Another person changed: name' });
        await note.waitFor();
        assert.equal(await form.getByLabel('Name').inputValue(), 'Eve L');
        assert.deepEqual(await places(), before, 'the changes move no field, no button and no post');
        const line = await note.boundingBox();
        const gap = (before[0]?.y ?? Number.NaN) - (line === null ? 0 : line.y + line.height);
        assert.ok(
          gap >= 0 && gap < 20,
          `the conflict must be directly above the button to save, not ${gap} px`,
        );
      },
    );

    await t.test('changes that are older than the read of the open user do not replace it', async () => {
      await show(3);
      await page.evaluate('hide(true)');
      await send(http, 'PATCH /users/3', { json: { role: 'admin' } });
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.getByText('User 3 · version 2').waitFor();
      await page.locator('#table-area[aria-busy="false"]').waitFor();
      await page.evaluate('hide(false)');
      await caughtUp();
      assert.equal(await page.getByText('by another person').count(), 0);
    });

    await t.test('changes mark a count that they make old', async () => {
      const mark = () => styleOf(page, '#total::after', 'content');
      await send(http, 'POST /users', { json: { name: 'Mia' } });
      await show();
      /** Reading the list again would hide the button that the test shows. */
      const list = async (filter: string, range: string) => {
        await showView(page, `/?limit=10${filter}`);
        await page.locator('#page-range').getByText(range, { exact: true }).waitFor();
      };
      const count = async (text: RegExp) => {
        await page.getByRole('button', { name: 'Count all', disabled: false }).click();
        await page.locator('#total:not([data-old])', { hasText: text }).waitFor();
        assert.equal(await mark(), 'none');
      };
      for (const [filter, range, change, json, text] of [
        ['', 'Rows 1–10', 'POST /users', { name: 'Mio' }, /in all$/],
        ['&name=M', 'Rows 1–2 of 2', 'PATCH /users/1', { name: 'Moe' }, /begin with/],
      ] as const) {
        await list(filter, range);
        // A page with all of its users needs no button to count them.
        await page.locator('#count-button').evaluate((button) => button.removeAttribute('hidden'));
        await count(text);
        await send(http, change, { json });
        await page.locator('#total[data-old]').waitFor();
        assert.equal(await mark(), '", before later changes"');
        await count(text);
      }
      await list('', 'Rows 1–10');
      await count(/in all$/);
      await send(http, 'POST /users/1/posts', { json: { title: 'post' } });
      await send(http, 'PATCH /users/1', { json: { name: 'Ann' } });
      await row(page, 'Ann').waitFor();
      assert.equal(await mark(), 'none');
      await page.route('**/users?limit=1', async (route) => {
        const response = await route.fetch();
        await send(http, 'POST /users', { json: { name: 'Zoe' } });
        await page.locator('#total[data-old]').waitFor({ state: 'attached' });
        await route.fulfill({ response });
      });
      await page.getByRole('button', { name: 'Count all' }).click();
      await page.getByRole('button', { name: 'Count all', disabled: false }).waitFor();
      assert.equal(await mark(), '", before later changes"', 'a count that began before a change');
      await page.unroute('**/users?limit=1');
      await miss(() => Promise.resolve());
      await page.locator('#total:empty').waitFor({ state: 'attached' });
    });

    await t.test('changes do not include the changes of the page itself', async () => {
      await show(5);
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Fay L');
      await form.getByRole('button', { name: 'Save' }).click();
      await row(page, 'Fay L').waitFor();
      await caughtUp();
      assert.equal(await page.locator('.changed:not(:empty)').count(), 0);
      assert.equal(await page.getByText('by another person').count(), 0);
    });

    await t.test(
      'changes that are newer than a save of the page replace it, although the response to the save is late',
      async () => {
        await show(6);
        let isLate = false;
        await intercept(page, 'PATCH', '**/users/6', async (route) => {
          const response = await route.fetch();
          await changeUser(http, 6, { name: 'Theirs' });
          await page.evaluate('hide(false)');
          // All three changes arrive together.
          await page.getByText('Live · 1 new').waitFor();
          isLate = true;
          await route.fulfill({ response });
        });
        await page.locator('#edit-name').fill('Mine');
        await page.evaluate('hide(true)');
        await send(http, 'POST /users', { json: { name: 'Max' } });
        await page.keyboard.press('Enter');
        await announced(page, 'Saved Mine');
        assert.ok(isLate, 'the response was delayed');
        // If the feed had not delivered the change, this wait would fail, and not those for the panel.
        await row(page, 'Theirs').getByText('Changed').waitFor();
        await page.getByText('version 3, by another person').waitFor();
        assert.equal(await page.locator('#edit-name').inputValue(), 'Theirs');
      },
    );

    await t.test(
      'changes include a deletion and a save of the page that were cancelled too late',
      async () => {
        await show(7);
        const reached = { DELETE: Promise.withResolvers<void>(), PATCH: Promise.withResolvers<void>() };
        await page.route(/users\/\d$/, async (route) => {
          const method = route.request().method();
          if (method !== 'DELETE' && method !== 'PATCH') return await route.continue();
          // The page never gets this response.
          await route.fetch();
          reached[method].resolve();
        });
        await page.getByRole('button', { name: 'Delete…' }).click();
        await page.getByRole('button', { name: 'Delete user' }).click();
        await reached.DELETE.promise;
        await page.getByRole('button', { name: 'Cancel' }).click();
        await row(page, 'Hal').getByText('Deleted').waitFor();
        await page.getByText('There is no user 7').waitFor();
        assert.equal(await page.getByText('Saved Hal').count(), 0);
        await openUser(page, 'Ian');
        await page.locator('#edit-name').fill('Ida');
        await page.keyboard.press('Enter');
        await reached.PATCH.promise;
        await page.getByRole('button', { name: 'Discard' }).click();
        await row(page, 'Ida').getByText('Changed').waitFor();
        assert.equal(await page.locator('#edit-name').inputValue(), 'Ida');
      },
    );

    await t.test('changes include a save of the page for which a proxy has sent an error', async () => {
      await show(9);
      await intercept(page, 'PATCH', '**/users/9', async (route) => {
        await route.fetch();
        await route.fulfill({ status: 504, body: 'Gateway Timeout' });
      });
      await page.locator('#edit-name').fill('Jan L');
      await page.keyboard.press('Enter');
      await row(page, 'Jan L').getByText('Changed').waitFor();
      await page.getByText('User 9 · version 2', { exact: true }).waitFor();
      await page.getByText('Saved Jan L').waitFor();
    });

    for (const [title, isFirst] of [
      ['before', true],
      ['after', false],
    ] as const) {
      await t.test(
        `changes by a save whose first response was lost are reported once if they arrive ${title} the second response`,
        async (t) => {
          await show(8);
          expectAway(t, http);
          const name = `Ida ${title}`;
          let lost = false;
          await intercept(page, 'PATCH', '**/users/8', async (route) => {
            if (lost && isFirst) await row(page, name).getByText('Changed').waitFor();
            await (lost ? route.continue() : route.fetch().then(() => route.abort('connectionreset')));
            lost = true;
          });
          const messages = await recordMessages(page);
          if (!isFirst) await page.evaluate('hide(true)');
          await page.locator('#edit-name').fill(name);
          await page.keyboard.press('Enter');
          await page.locator('#edit-form[aria-busy="false"]').waitFor();
          await page.evaluate('hide(false)');
          await caughtUp();
          assert.deepEqual(await messages(), [`Saved ${name}`]);
        },
      );
    }

    await t.test(
      'changes by a save with an error response do not conflict with text typed after it',
      async () => {
        await show(9);
        await page.evaluate('hide(true)');
        await page.route(
          '**/users/9',
          async (route) => {
            await route.fetch();
            await route.fulfill({ status: 504, body: 'Gateway Timeout' });
          },
          { times: 1 },
        );
        const form = page.getByRole('form', { name: 'Edit user' });
        await form.getByLabel('Name').fill('First');
        await page.keyboard.press('Enter');
        await form.getByText('(504)').waitFor();
        await form.getByLabel('Name').fill('Second');
        await page.evaluate('hide(false)');
        await row(page, 'First').getByText('Changed').waitFor();
        assert.equal(await form.getByText('Another person').isVisible(), false);
        assert.equal(await form.getByLabel('Name').inputValue(), 'Second');
        await form.getByRole('button', { name: 'Discard' }).click();
        assert.equal(await form.getByLabel('Name').inputValue(), 'First');
      },
    );

    await t.test('changes that arrive during a failing save show their conflict after it', async () => {
      await show(10);
      await intercept(page, 'PATCH', '**/users/10', async (route) => {
        await changeUser(http, 10, { name: 'Theirs', role: 'editor' });
        await page.getByText('version 2, by another person').waitFor();
        await route.fulfill({ status: 500, json: { error: 'internal error' } });
      });
      const form = page.getByRole('form', { name: 'Edit user' });
      await form.getByLabel('Name').fill('Mine');
      await page.keyboard.press('Enter');
      await form.getByText('internal error').waitFor();
      await form.getByRole('status').filter({ hasText: 'Another person changed: name' }).waitFor();
      assert.equal(await form.getByLabel('Name').inputValue(), 'Mine');
      await form.getByRole('button', { name: 'Discard' }).click();
      assert.equal(await form.getByLabel('Name').inputValue(), 'Theirs');
      assert.equal(await form.getByLabel('Role').inputValue(), 'editor');
    });

    await t.test(
      'changes are not requested while the page is hidden, and appear when it is visible again',
      async (t) => {
        await show();
        const before = ended();
        await page.evaluate('hide(true)');
        await t.waitFor(() => assert.ok(ended() > before), { timeout: 10_000 });
        await send(http, 'PATCH /users/10', { json: { name: 'Kit' } });
        await page.evaluate('hide(false)');
        await row(page, 'Kit').getByText('Changed').waitFor();
      },
    );

    await t.test(
      'changes appear in a browser that cannot iterate over a stream, and cannot forge another event with a line separator',
      async () => {
        await page.evaluate(`
          delete ReadableStream.prototype[Symbol.asyncIterator];
          delete ReadableStream.prototype.values;
          hide(true)`);
        await show();
        const requests = recordRequests(page);
        await send(http, 'PATCH /users/1', { json: { name: 'Pia\u2028event: gone\u2028' } });
        await send(http, 'PATCH /users/3', { json: { name: 'Rob\u2029' } });
        await row(page, 'Rob').getByText('Changed').waitFor();
        await row(page, 'Pia').getByText('Changed').waitFor();
        assert.equal(requests.length, 0, 'the list is not read again');
      },
    );

    await t.test(
      'changes are requested again after one that cannot be read, and the failed connection is closed',
      async (t) => {
        await show();
        const before = ended();
        await page.evaluate(`
          const parse = JSON.parse;
          JSON.parse = (text) => parse(text.includes('Unreadable') ? '' : text)`);
        await send(http, 'PATCH /users/1', { json: { name: 'Unreadable' } });
        // The service reports the request for the changes when its connection closes.
        await t.waitFor(() => assert.ok(ended() > before), { timeout: 10_000 });
        await send(http, 'PATCH /users/1', { json: { name: 'Sue' } });
        await row(page, 'Sue').getByText('Changed').waitFor();
      },
    );
  });

  test('changes of posts on a page that shows one user after another', async (t) => {
    const { http, page, show, miss, caughtUp } = await openLive(t);

    await t.test(
      'changes appear in the form of a post that is opened at the same time, and do not hide it',
      async () => {
        const { posts } = await show(1, ['One']);
        const { reached, release } = await holdResponses(page, `**${posts[0]}`);
        await page.getByRole('button', { name: 'Edit One' }).click();
        await reached;
        await send(http, `PATCH ${posts[0]}`, { json: { title: 'First' } });
        await page.getByRole('heading', { name: 'First' }).waitFor();
        release();
        assert.equal(await page.locator('#post-edit-title:focus').inputValue(), 'First');
        await page.keyboard.press('Escape');
        await page.getByRole('heading', { name: 'First' }).waitFor();
      },
    );

    await t.test('changes appear in an open post behind a proxy that removes entity tags', async () => {
      const { posts } = await show(2, ['One']);
      await page.route(`**${posts[0]}`, async (route) => {
        const response = await route.fetch();
        const { etag: _, ...headers } = response.headers();
        await route.fulfill({ response, headers });
      });
      const title = page.locator('#post-edit-title:focus');
      await page.getByRole('button', { name: 'Edit One' }).click();
      await title.waitFor();
      await send(http, `PATCH ${posts[0]}`, { json: { title: 'First' } });
      await hasText(title, 'First');
      await page.route('**/users/2', async (route) => {
        const response = await route.fetch();
        const { etag: _, ...headers } = response.headers();
        await route.fulfill({ response, headers });
      });
      await page.evaluate("document.querySelector('#refresh-button').click()");
      await page.getByText('User 2', { exact: true }).waitFor();
    });

    await t.test(
      'changes that were missed appear in a post that is left while the list is read again',
      async () => {
        const { user, posts } = await show(3, ['One', 'Two']);
        await page.getByRole('button', { name: 'Edit One' }).click();
        await page.locator('#post-edit-title:focus').waitFor();
        await page.evaluate('hide(true)');
        await send(http, `PATCH ${posts[0]}`, { json: { title: 'First' } });
        const lists = await holdResponses(page, `**${user}/posts?*`);
        const post = await holdResponses(page, `**${posts[0]}`);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await Promise.all([lists.reached, post.reached]);
        await page.getByRole('button', { name: 'Edit Two' }).click();
        await page.locator('#post-edit-title:focus').waitFor();
        lists.release();
        await page.locator('#post-list:not([aria-busy="true"])').waitFor();
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Two', 'First']);
      },
    );

    await t.test('changes appear in the list when the changed post is left to edit another one', async () => {
      const { posts } = await show(4, ['One', 'Two']);
      const title = page.locator('#post-edit-title:focus');
      await page.getByRole('button', { name: 'Edit One' }).click();
      await title.waitFor();
      await send(http, `PATCH ${posts[0]}`, { json: { title: 'First' } });
      await hasText(title, 'First');
      await page.getByRole('button', { name: 'Edit Two' }).click();
      await page.getByRole('heading', { name: 'First' }).waitFor();
      await title.fill('Mine');
      await send(http, `DELETE ${posts[1]}`);
      await page.getByText('Another person has deleted this post').waitFor();
      await page.getByRole('button', { name: 'Edit First' }).click();
      await page.locator('#post-list > li', { hasText: 'Two' }).getByText('Deleted').waitFor();
    });

    await t.test('a click on Edit opens the post that is changed during the click', async () => {
      const { posts } = await show(5, ['Old']);
      await page.getByRole('button', { name: 'Edit Old' }).hover();
      await page.mouse.down();
      await send(http, `PATCH ${posts[0]}`, { json: { title: 'New' } });
      await page.getByRole('heading', { name: 'New' }).waitFor();
      await page.mouse.up();
      await hasText(page.locator('#post-edit-title:focus'), 'New');
      await page.keyboard.press('Escape');
      await page.locator('#post-list').getByText('Changed').waitFor({ state: 'hidden' });
    });

    await t.test(
      'changes appear as changed and deleted posts of the open user, and as its deletion',
      async () => {
        const { user, posts: paths } = await show(5, ['One', 'Two']);
        const posts = page.locator('#post-list > li');
        await posts.filter({ hasText: 'One' }).waitFor();
        await send(http, `PATCH ${paths[0]}`, { json: { title: 'First' } });
        await posts.filter({ hasText: 'First' }).getByText('Changed').waitFor();
        await send(http, `DELETE ${paths[1]}`);
        await posts.filter({ hasText: 'Two' }).getByText('Deleted').waitFor();
        await send(http, `DELETE ${user}`);
        await page.getByText('There is no user 5').waitFor();
      },
    );

    await t.test(
      'changes are counted apart if they are new posts of the open user, and the button of the count shows them',
      async () => {
        const { user } = await show(6);
        await page.getByText('No posts yet').waitFor();
        await send(http, `POST ${user}/posts`, { json: { title: 'One' } });
        await page.getByRole('button', { name: 'Show 1 new post', exact: true }).waitFor();
        assert.equal(await page.locator('#feed-state').textContent(), 'Live');
        await send(http, `POST ${user}/posts`, { json: { title: 'Two' } });
        const button = page.getByRole('button', { name: 'Show 2 new posts' });
        await button.waitFor();
        const { headers } = await send(http, `POST ${user}/posts`, { json: { title: 'Three' } });
        await page.getByRole('button', { name: 'Show 3 new posts' }).waitFor();
        await send(http, `DELETE ${headers.location}`);
        await button.waitFor();
        await page.locator('th[data-sort="name"] button').click();
        await page.locator('th[data-sort="name"][aria-sort]').waitFor();
        await page.locator('#table-area[aria-busy="false"]').waitFor();
        await button.focus();
        await page.keyboard.press('Enter');
        await page.locator('#posts-heading:focus').waitFor();
        await page.locator('.post').nth(1).waitFor();
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Two', 'One']);
        assert.equal(await page.locator('#posts-new').isVisible(), false);
        assert.equal(await page.getByText('No posts yet').isVisible(), false);
      },
    );

    await t.test(
      'the work for a new post does not grow with the posts that were counted before',
      async () => {
        const { user } = await show(6);
        await page.evaluate(`
        globalThis.searches = 0;
        const { querySelector } = Element.prototype;
        Element.prototype.querySelector = function (selector) {
          if (this.id === 'post-list') searches += 1;
          return querySelector.call(this, selector);
        };
      `);
        const titles = Array.from({ length: 30 }, (_, i) => `Post ${i}`);
        await addPosts(http, user, titles);
        await page.getByRole('button', { name: `Show ${titles.length} new posts` }).waitFor();
        const searches = await page.evaluate<number>('searches');
        assert.ok(searches <= titles.length, `the list was searched ${searches} times`);
      },
    );

    await t.test(
      'changes are not counted as new if the page shows these users and posts anyway',
      async (t) => {
        const { user } = await show(7);
        await page.evaluate('hide(true)');
        await send(http, `POST ${user}/posts`, { json: { title: 'One' } });
        await send(http, 'POST /users', { json: { name: 'Liz' } });
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.locator('.post').waitFor();
        await page.evaluate('hide(false)');
        // The changes that were made before this one have arrived.
        await send(http, `PATCH ${user}`, { json: { name: 'Zoe' } });
        await row(page, 'Zoe').waitFor();
        assert.equal(await page.locator('#feed-state').textContent(), 'Live');
        assert.equal(await page.locator('#posts-new').isVisible(), false);
        const titles = page.locator('.post h4');
        await page.route(`**${user}/posts?*`, async (route) => {
          await send(http, `POST ${user}/posts`, { json: { title: 'Two' } });
          await page.locator('#posts-new').waitFor();
          await route.continue();
        });
        await page.getByRole('button', { name: 'Refresh' }).click();
        await titles.nth(1).waitFor();
        assert.equal(await page.locator('#posts-new').isVisible(), false, 'the change came during the read');
        expectAway(t, http);
        let requests = 0;
        await page.route(`**${user}/posts`, async (route) => {
          requests += 1;
          if (requests > 1) await page.locator('#posts-new').waitFor();
          else await route.fetch();
          await (requests > 1 ? route.continue() : route.abort('connectionreset'));
        });
        await page.getByText('Write a post').click();
        await page.locator('#post-title').fill('Three');
        await page.keyboard.press('Enter');
        await announced(page, 'Added the post');
        assert.deepEqual(await titles.allTextContents(), ['Three', 'Two', 'One']);
        assert.equal(await page.locator('#posts-new').isVisible(), false, 'the first response was lost');
      },
    );

    await t.test(
      'changes that are older than a save of the page do not replace it after a reconnection',
      async () => {
        const { user, posts } = await show(8, ['One']);
        await page.getByRole('button', { name: 'Edit One' }).click();
        await page.locator('#post-edit-title:focus').waitFor();
        await page.evaluate('hide(true)');
        await send(http, `PATCH ${user}`, { json: { role: 'admin' } });
        await send(http, `PATCH ${posts[0]}`, { json: { body: 'theirs' } });
        const post = page.locator('.post');
        await page.locator('#post-edit-title').fill('Mine');
        await page.locator('#post-edit-form').getByRole('button', { name: 'Save' }).click();
        await post.getByRole('heading', { name: 'Mine' }).waitFor();
        await page.locator('#edit-name').fill('Ian L');
        await page.locator('#edit-save').click();
        await page.getByText('version 3').waitFor();
        await page.evaluate('hide(false)');
        await caughtUp();
        assert.match((await row(page, 'admin').textContent()) ?? '', /^\s*8\s*Ian L\s*admin\s*$/);
        assert.equal(await post.locator('h4').textContent(), 'Mine');
        assert.equal(await post.getByText('theirs').isVisible(), true);
        assert.equal(await page.locator('.changed:not(:empty)').count(), 0);
      },
    );

    await t.test(
      'changes appear after the service has dropped some, also in the post that is edited and those beside it',
      async () => {
        const { user, posts } = await show(9, ['One', 'Two', 'Three']);
        await page.getByRole('button', { name: 'Edit Two' }).click();
        await page.locator('#post-edit-title').fill('Mine');
        await miss(async () => {
          await send(http, `PATCH ${posts[0]}`, { json: { title: 'First' } });
          await send(http, `PATCH ${posts[1]}`, { json: { body: 'Theirs' } });
          await send(http, `DELETE ${posts[2]}`);
          posts.push(...(await addPosts(http, user, ['Four'])));
        });
        await page.locator('.post h4', { hasText: 'First' }).waitFor();
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Four', 'Two', 'First']);
        await hasText(page.locator('#post-edit-body'), 'Theirs');
        assert.equal(await page.locator('#post-edit-title:focus').inputValue(), 'Mine');
        await page.keyboard.press('Escape');
        await miss(() => send(http, `PATCH ${posts[0]}`, { json: { title: 'Last' } }));
        await page.locator('.post h4', { hasText: 'Last' }).waitFor();
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Four', 'Two', 'Last']);
        assert.equal(await page.locator('.post-body', { hasText: 'Theirs' }).count(), 1);
        await page.getByRole('button', { name: 'Edit Four' }).click();
        await page.locator('#post-edit-title:focus').waitFor();
        await miss(() => send(http, `DELETE ${posts[3]}`));
        await announced(page, 'Four was deleted');
        await page.locator('#post-edit-form').waitFor({ state: 'hidden' });
      },
    );

    await t.test(
      'changes leave the focus on a post when all are read again, or on their heading if it was deleted',
      async () => {
        const { posts } = await show(10, ['One', 'Two']);
        await page.getByRole('button', { name: 'Edit One' }).focus();
        await miss(() => send(http, `PATCH ${posts[0]}`, { json: { title: 'Last' } }));
        await page.locator('[aria-label="Edit Last"]:focus').waitFor();
        await miss(() => send(http, `DELETE ${posts[0]}`));
        await page.locator('#posts-heading:focus').waitFor();
        assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Two']);
      },
    );
  });

  test('changes on a page with late responses, and on one with a filter', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }, { name: 'Cy' }]);
    for (const title of ['One', 'Two']) await send(http, 'POST /users/3/posts', { json: { title } });
    const page = await open(t, `${http}/`, { initScript: bytewise });
    await isLive(page);

    await t.test('changes appear in a list that was read before them', async () => {
      const { reached, release } = await holdResponses(page, '**/users?*');
      await page.locator('th[data-sort="name"] button').click();
      await reached;
      await send(http, 'PATCH /users/1', { json: { name: 'Zoe' } });
      await send(http, 'DELETE /users/2');
      await row(page, 'Bob').getByText('Deleted').waitFor();
      release();
      await page.locator('#table-area[aria-busy="false"]').waitFor();
      const names = await page.locator('#user-rows th').allTextContents();
      assert.deepEqual(names, ['ZoeChanged', 'BobDeleted', 'Cy']);
      await page.getByRole('button', { name: 'Refresh' }).click();
      await row(page, 'Bob').waitFor({ state: 'detached' });
      // The next read has these changes.
      assert.deepEqual(await page.locator('#user-rows th').allTextContents(), ['Cy', 'Zoe']);
    });

    await t.test('changes appear in a user that was read before them', async () => {
      const { reached, release } = await holdResponses(page, '**/users/1');
      await page.getByRole('link', { name: 'Zoe' }).click();
      await reached;
      await send(http, 'PATCH /users/1', { json: { name: 'Eve' } });
      await row(page, 'Eve').waitFor();
      release();
      await page.getByText(/version \d/).waitFor();
      assert.equal(await page.locator('#detail-heading').textContent(), 'Eve');
      assert.equal(await page.locator('#edit-name').inputValue(), 'Eve');
    });

    await t.test('changes appear in posts that were read before them', async () => {
      const { reached, release } = await holdResponses(page, '**/users/3/posts?*');
      await page.getByRole('link', { name: 'Cy' }).click();
      await reached;
      await send(http, 'PATCH /users/3/posts/1', { json: { title: 'First' } });
      await send(http, 'DELETE /users/3/posts/2');
      // The changes that were made before this one have arrived.
      await send(http, 'PATCH /users/3', { json: { name: 'Cleo' } });
      await row(page, 'Cleo').waitFor();
      release();
      await page.locator('#post-list[aria-busy="false"]').waitFor({ state: 'attached' });
      assert.deepEqual(await page.locator('.post h4').allTextContents(), ['Two', 'First']);
      assert.deepEqual(await page.locator('.post .changed').allTextContents(), ['Deleted', 'Changed']);
    });

    await t.test(
      'changes are not counted as new users if the page would not list them, or after their deletion',
      async () => {
        const role = 'admin';
        await addUsers(http, [...numbered(11).map(({ name }) => ({ name, role })), { name: 'Ada', role }]);
        await showView(page, '/?name=u&role=admin&sort=-name&limit=10');
        const check = async (firstName: string, unlisted: readonly object[], listed: object) => {
          await firstNameIs(page, firstName);
          await isLive(page);
          for (const json of unlisted) await send(http, 'POST /users', { json });
          const { headers } = await send(http, 'POST /users', { json: listed });
          await page.getByText('Live · 1 new').waitFor();
          await send(http, `DELETE ${headers.location}`);
          await page.getByText('Live', { exact: true }).waitFor();
        };
        const unlisted = [{ name: 'user 012' }, { name: 'you', role }, { name: 'user 000', role }];
        await check('user 011', unlisted, { name: 'user 005', role });
        await page.getByRole('button', { name: 'Next' }).click();
        await check('user 001', [{ name: 'user 013', role }], { name: 'u', role });
        // Beyond the last page, all users are on earlier ones. The page has the second change after the first.
        await showView(page, '/users/1?name=u&role=admin&sort=-name&limit=10&page=9');
        await page.getByText('No more users').waitFor();
        await isLive(page);
        await send(http, 'POST /users', { json: { name: 'user 007', role } });
        await send(http, 'PATCH /users/1', { json: { name: 'Lea' } });
        await page.locator('#detail-heading', { hasText: 'Lea' }).waitFor();
        assert.equal(await page.locator('#feed-state').textContent(), 'Live');
      },
    );
  });

  test('changes on a page whose service stops and restarts', async (t) => {
    const repository = createMemoryStore();
    const { http, stop, startAgain } = await startRestartable(t, { repository });
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }, { name: 'Cy' }]);
    const page = await open(t, `${http}/`);
    const reconnecting = page.getByText('Reconnecting…');
    /** Stops the service until the page notices it, and restarts it with this data. */
    const restart = async (data: () => Promise<Repository>, noticed = reconnecting) => {
      await stop();
      await noticed.waitFor().finally(async () => startAgain({ repository: await data() }));
    };

    await t.test(
      'changes reach an EventSource of a page, which resumes after the last received change',
      async (t) => {
        await isLive(page);
        await page.evaluate(`
          globalThis.received = [];
          globalThis.source = new EventSource('/changes?type=user.created');
          source.onmessage = ({ lastEventId, data }) => received.push(lastEventId + ' ' + JSON.parse(data).type)`);
        t.after(() => page.evaluate('source.close()'));
        const received = (count: number) =>
          t.waitFor(async () => assert.equal(await page.evaluate('received.length'), count), {
            timeout: 20_000,
          });
        await received(3);
        await restart(async () => {
          await repository.posts(3).create({ title: 'Notes', body: '' });
          await repository.users.create({ name: 'Dan' });
          return repository;
        });
        await received(4);
        const created = [1, 2, 3, 5].map((id) => `${id} user.created`);
        assert.deepEqual(await page.evaluate('received'), created);
      },
    );

    await t.test('changes appear again after an outage, including those made during it', async () => {
      await isLive(page);
      await restart(async () => {
        await repository.users.update(3, { name: 'Dee' });
        return repository;
      });
      await row(page, 'Dee').getByText('Changed').waitFor();
      await isLive(page);
    });

    await t.test(
      'changes are not overwritten without a choice after a restart with other data of the same version',
      async () => {
        await showView(page, '/users/2');
        await isLive(page);
        await page.locator('#edit-name').fill('Mine');
        await restart(async () => {
          const other = createMemoryStore();
          // As many changes as before, so the page does not read everything again because it has missed some.
          for (const name of ['Eve', 'Fay', 'Hal', 'Ian', 'Jan', 'Kim']) await other.users.create({ name });
          return other;
        }, page.getByText('The service is not responding'));
        await page.getByText('Another person changed: name').waitFor();
        await page.keyboard.press('Enter');
        await page.getByRole('dialog').getByText('Theirs Fay').waitFor();
        assert.deepEqual(await readUser(http, 2), { id: 2, name: 'Fay' });
      },
    );

    await t.test(
      'changes appear after a restart with other data, whose versions are lower than those saved by the page',
      async () => {
        await send(http, 'POST /users/1/posts', { json: { title: 'One' } });
        await showView(page, '/users/1');
        await isLive(page);
        for (const name of ['Eve L', 'Eve Lo']) {
          await page.locator('#edit-name').fill(name);
          await page.keyboard.press('Enter');
          await announced(page, `Saved ${name}`);
        }
        for (const title of ['First', 'Second']) {
          await page.locator('.post').getByRole('button', { name: 'Edit' }).click();
          await page.locator('#post-edit-title').fill(title);
          await page.keyboard.press('Enter');
          await announced(page, `Saved ${title}`);
        }
        await restart(async () => {
          const other = createMemoryStore();
          await other.users.create({ name: 'Gus' });
          await other.posts(1).create({ title: 'Other', body: '' });
          return other;
        });
        await page.locator('.post h4', { hasText: 'Other' }).waitFor();
        await row(page, 'Gus').waitFor();
        await isLive(page);
        await send(http, 'PATCH /users/1', { json: { name: 'Zoe' } });
        await row(page, 'Zoe').getByText('Changed').waitFor();
        await send(http, 'PATCH /users/1/posts/1', { json: { title: 'Last' } });
        await page.locator('.post').filter({ hasText: 'Last' }).getByText('Changed').waitFor();
      },
    );
  });

  test('changes are requested with growing pauses while the response is 429 or 503, and at once after an outage', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, 'about:blank', { clock: true, fresh: true });
    let [requests, isOpen] = [0, false];
    await page.route('**/changes', (route) => {
      requests += 1;
      if (isOpen) return route.fulfill({ contentType: 'text/event-stream', body: ': hello\n\n' });
      const status = requests % 2 === 1 ? 429 : 503;
      return route.fulfill({ status, json: { error: 'too many clients follow the changes' } });
    });
    await page.goto(`${http}/`);
    await page.getByText('Reconnecting…').waitFor();
    // The clock must not have reached this time when the call arrives.
    await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 10_000'));
    await advance(page, 20_000, 2_000);
    // The pauses begin at 0.5, 1, 2 and 4 s at least, and no pause is longer than 20 s.
    assert.ok(requests >= 3 && requests <= 7, `${requests} requests in 20 s`);
    await page.route(/health|users/, (route) => route.fulfill({ status: 502, body: '' }));
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('The service is not responding').waitFor();
    await page.unroute(/health|users/);
    const asked = page.waitForRequest('**/changes');
    await page.getByRole('button', { name: 'Try now' }).click();
    await asked;
    [requests, isOpen] = [0, true];
    await advance(page, 30_000, 2_000);
    // After a connection, the pauses begin again at 0.5 s at least. Otherwise each would take 10 s at least.
    assert.ok(requests > 3, `${requests} requests in 30 s`);
    await page.unroute('**/changes');
    // The last response may arrive after the first step, and the pause after it is at most 20 s.
    await advance(page, 40_000, 10_000);
    await isLive(page);
  });

  test('changes are requested again after 45 s without a response, and after 45 s without data on a lost connection', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, 'about:blank', { clock: true, fresh: true });
    // The service sends a comment every 15 s, which a slow machine reaches before the page reaches 45 s by its clock.
    const { setInterval } = globalThis;
    t.mock.method(globalThis, 'setInterval', (run: () => void, ms: number) =>
      setInterval(ms === 15_000 ? () => undefined : run, ms),
    );
    let requests = 0;
    page.on('request', (request) => {
      if (new URL(request.url()).pathname === '/changes') requests += 1;
    });
    await page.route('**/changes', () => undefined, { times: 1 });
    // The clock must not have reached this time when the call arrives.
    await page.clock.pauseAt(Date.now() + 10_000);
    const sent = page.waitForRequest('**/changes');
    await page.goto(`${http}/`);
    await sent;
    await advance(page, 40_000, 4_000);
    await advance(page, 4_500);
    assert.equal(requests, 1);
    // The pause before the next request is at most 1 s.
    await advance(page, 2_000);
    assert.equal(requests, 2);
    await isLive(page);
    await advance(page, 40_000, 4_000);
    await send(http, 'PATCH /users/1', { json: { name: 'Zoe' } });
    await row(page, 'Zoe').getByText('Changed').waitFor();
    await advance(page, 40_000, 4_000);
    assert.equal(requests, 2);
    await advance(page, 7_500, 2_500);
    await isLive(page);
    assert.equal(requests, 3);
  });

  test('changes are not requested if the service keeps no changes', async (t) => {
    const { http, events } = await startService(t, { changesKept: false });
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/`);
    await firstNameIs(page, 'Ada');
    await page.getByText('Not live').waitFor();
    // The response to this request shows that the service has reported the earlier requests of the page.
    await settled(page);
    const paths = events.flatMap((event) => (event.type === 'request' ? [event.path] : []));
    assert.ok(paths.includes('/users'));
    assert.ok(!paths.includes('/changes'));
  });
});

suite('console: closing a tab', { skip: noBrowser }, () => {
  const open = useBrowser();

  test('a tab asks before it closes only if there is unsaved text, except that of a deleted user who is not open', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }, { name: 'Bob' }]);
    const page = await open(t, `${http}/`, { fresh: true });
    await isLive(page);
    await openUser(page, 'Ada');
    const name = page.getByRole('form', { name: 'Edit user' }).getByLabel('Name');
    await name.fill('Ada L');
    const asked = page.waitForEvent('dialog');
    await page.close({ runBeforeUnload: true });
    const dialog = await asked;
    assert.equal(dialog.type(), 'beforeunload');
    await dialog.dismiss();
    await name.fill('Ada');
    await openUser(page, 'Bob');
    await page.locator('#detail-heading', { hasText: 'Bob' }).waitFor();
    await name.fill('Bea');
    await openUser(page, 'Ada');
    await send(http, 'DELETE /users/2');
    await row(page, 'Bob').getByText('Deleted').waitFor();
    await page.getByRole('button', { name: 'New user' }).click();
    await page.locator('#new-name').fill('B');
    await page.locator('#new-name').fill('');
    await page.keyboard.press('Enter');
    await page.locator('#new-name-problem').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('Write a post').click();
    await page.getByRole('button', { name: 'Add post' }).click();
    await page.locator('#post-title-problem').waitFor();
    const types: string[] = [];
    page.on('dialog', async (again) => {
      types.push(again.type());
      await again.accept();
    });
    const closed = page.waitForEvent('close');
    await page.close({ runBeforeUnload: true });
    await closed;
    assert.deepEqual(types, []);
  });
});
