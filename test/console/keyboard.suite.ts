import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  firstNameIs,
  holdRequests,
  isLive,
  numbered,
  openUser,
  readUser,
  responseRead,
  settled,
  showView,
} from './people.ts';
import { startService } from './service.ts';

/** Presses Tab until the focus is on a matching element. Fails if the focus returns to the start. */
async function tabTo(page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press('Tab');
    if (await page.locator(`${selector}:focus`).count()) return;
  }
  assert.fail(`Tab never reached ${selector}`);
}

/** Moves the focus before the first element, where it is after a page has loaded. */
async function beforeFirst(page: Page): Promise<void> {
  await page.locator('#skip-link').focus();
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.locator(':focus').count(), 0);
}

function focused(page: Page, selector: string): Promise<void> {
  return page.locator(`${selector}:focus`).waitFor();
}

suite('console: keyboard', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('the focus on a page whose users are opened one after another', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, numbered(12));
    const page = await open(t, `${http}/#/users/1`);

    await t.test('each focused element has a visible focus mark', async () => {
      await page.getByRole('heading', { name: 'user 001' }).waitFor();
      let stops = 0;
      for (; stops < 60; stops += 1) {
        await page.keyboard.press('Tab');
        const focus = page.locator(':focus');
        if ((await focus.count()) === 0) break;
        const outline: string = await page.evaluate(`(() => {
          const focus = document.activeElement;
          const row = focus.matches('tbody a') ? focus.closest('tr') : focus;
          return getComputedStyle(row).outlineStyle + ' ' + getComputedStyle(row).outlineWidth;
        })()`);
        assert.equal(outline, 'solid 2px');
      }
      assert.ok(stops > 15, `only ${stops} stops`);
    });

    await t.test('the arrow keys move from the search box to the names, and between them', async () => {
      await showView(page, '/');
      await page.keyboard.press('/');
      await page.keyboard.press('Shift+ArrowDown');
      // The key chooses a word of an input method.
      await page.locator('#name-filter').dispatchEvent('keydown', { key: 'ArrowDown', isComposing: true });
      await focused(page, '#name-filter');
      for (const [key, id] of [
        ['ArrowDown', 1],
        ['ArrowDown', 2],
        ['ArrowUp', 1],
        ['ArrowUp', 1],
        ['Control+ArrowDown', 1],
      ] as const) {
        await page.keyboard.press(key);
        await focused(page, `tr[data-id="${id}"] a`);
      }
    });

    await t.test(
      'a user can be opened, changed and deleted with the keyboard, without losing the focus',
      async () => {
        await showView(page, '/');
        await page.locator('#detail').waitFor({ state: 'hidden' });
        await beforeFirst(page);
        await page.keyboard.press('Tab');
        await focused(page, '#skip-link');
        await page.keyboard.press('Enter');
        await focused(page, '#users-heading');
        await tabTo(page, 'tr[data-id="2"] a');
        await page.keyboard.press('Enter');
        await focused(page, '#detail-heading');
        await tabTo(page, '#edit-name');
        await page.keyboard.press('Control+A');
        await page.keyboard.type('Typed by hand');
        await page.keyboard.press('Enter');
        await announced(page, 'Saved');
        await focused(page, '#edit-name');
        assert.deepEqual(await readUser(http, 2), { id: 2, name: 'Typed by hand' });
        await page.keyboard.press('Escape');
        await focused(page, 'tr[data-id="2"] a');
        await page.keyboard.press('Enter');
        await focused(page, '#detail-heading');
        await tabTo(page, '#edit-delete');
        await page.keyboard.press('Enter');
        await focused(page, '#delete-dialog [data-close]');
        await page.locator('#delete-dialog', { hasText: 'Typed by hand (user 2) and all posts' }).waitFor();
        await page.keyboard.press('Escape');
        await focused(page, '#edit-delete');
        assert.equal((await send(http, 'GET /users/2')).status, 200);
        await page.keyboard.press('Enter');
        await tabTo(page, '#delete-dialog [type="submit"]');
        await page.keyboard.press('Enter');
        await announced(page, 'Deleted Typed by hand');
        // The row of the user no longer exists.
        await focused(page, '#users-heading');
        assert.equal((await send(http, 'GET /users/2')).status, 404);
      },
    );

    await t.test(
      'the skip link leads to the open user if it replaces the list in a narrow window',
      async (t) => {
        const wide = page.viewportSize();
        t.after(() => wide && page.setViewportSize(wide));
        await page.setViewportSize({ width: 640, height: 900 });
        await showView(page, '/users/1');
        await page.getByRole('heading', { name: 'user 001' }).waitFor();
        await beforeFirst(page);
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
        await focused(page, '#detail-heading');
      },
    );

    await t.test('a dialog that is opened again before its close event confirms the deletion', async () => {
      await showView(page, '/users/3');
      await page.getByText('User 3 · version').waitFor();
      await page.locator('#edit-delete').click();
      await focused(page, '#delete-dialog [data-close]');
      // Both in one task, so that the second showing comes before the event of the first.
      await page.evaluate(`
        document.querySelector('#delete-dialog [data-close]').click();
        document.querySelector('#edit-delete').click()`);
      await tabTo(page, '#delete-dialog [type="submit"]');
      await page.keyboard.press('Enter');
      await announced(page, 'Deleted user 003');
      await focused(page, '#users-heading');
      assert.equal(await page.locator('#detail').isVisible(), false);
    });

    await t.test(
      'a save that ends after the user was closed does not move the focus from the list',
      async () => {
        await showView(page, '/');
        await openUser(page, 'user 004');
        const save = await holdRequests(page, 'PATCH', '**/users/4');
        await page.locator('#edit-name').fill('Typed by hand');
        await page.keyboard.press('Enter');
        await page.keyboard.press('Escape');
        await focused(page, 'tr[data-id="4"] a');
        save();
        await announced(page, 'Saved');
        assert.equal(await page.locator('tr[data-id="4"] a:focus').textContent(), 'Typed by hand');
      },
    );

    for (const [title, id, url, method, act, field] of [
      [
        'a user that is opened',
        5,
        '/users/12',
        'GET',
        () => page.getByRole('link', { name: 'user 012' }).click(),
        '#name-filter',
      ],
      [
        'a post that is opened',
        6,
        '/users/6/posts/2',
        'GET',
        () => page.getByRole('button', { name: 'Edit A title' }).click(),
        '#edit-name',
      ],
      [
        'a post that is saved',
        7,
        '/users/7/posts/3',
        'PATCH',
        async () => {
          await page.getByRole('button', { name: 'Edit A title' }).click();
          await page.locator('#post-edit-title').fill('Another title');
          await page.keyboard.press('Enter');
        },
        '#edit-name',
      ],
      [
        'a post that is added',
        11,
        '/users/11/posts',
        'POST',
        async () => {
          await page.getByText('Write a post').click();
          await page.locator('#post-title').fill('Another title');
          await page.keyboard.press('Enter');
        },
        '#edit-name',
      ],
      [
        'an invalid field',
        8,
        '/users/8',
        'PATCH',
        async () => {
          await page.locator('#edit-role').fill('NO');
          await page.keyboard.press('Enter');
        },
        '#name-filter',
      ],
    ] as const) {
      await t.test(
        `a late response for ${title} does not move the focus from a field that is typed into`,
        async () => {
          await send(http, `POST /users/${id}/posts`, { json: { title: 'A title' } });
          await showView(page, `/users/${id}`);
          await page.getByText(`User ${id} · version`).waitFor();
          await page.locator('.post').waitFor();
          const release = await holdRequests(page, method, `**${url}`);
          const read = responseRead(page, method, `${http}${url}`);
          await act();
          await page.locator(field).click();
          await page.keyboard.type('ab');
          release();
          await read;
          await settled(page);
          await page.keyboard.type('cd');
          assert.match(await page.locator(field).inputValue(), /abcd/);
          // This ends a search before its pause.
          await page.keyboard.press('Escape');
        },
      );
    }

    await t.test('an empty or failed list is announced, and its button does not lose the focus', async () => {
      await showView(page, '/?name=x');
      await page.getByRole('status').filter({ hasText: 'No users whose names begin with “x”' }).waitFor();
      await tabTo(page, '#list-state button');
      await page.keyboard.press('Enter');
      await firstNameIs(page, 'user 001');
      await focused(page, '#users-heading');
      await page.route('**/users?*', (route) => route.fulfill({ status: 500, json: { error: 'x' } }));
      await page.getByRole('button', { name: 'Refresh' }).click();
      const message = page.locator('#list-state .state', { hasText: 'The users could not be listed' });
      await message.waitFor();
      await tabTo(page, '#list-state button');
      await message.evaluate((element) => element.setAttribute('data-old', ''));
      await page.keyboard.press('Enter');
      const again = page.locator('#list-state .state:not([data-old])');
      await again.filter({ hasText: 'could not be listed' }).waitFor();
      await focused(page, '#list-state button');
      await page.unroute('**/users?*');
      await page.keyboard.press('Enter');
      await firstNameIs(page, 'user 001');
      await focused(page, '#users-heading');
    });

    await t.test(
      'the focus moves from a form or row that disappears to the message in its place',
      async () => {
        await showView(page, '/users/9');
        await isLive(page);
        await page.getByText('User 9 · version').waitFor();
        await page.locator('#edit-name').focus();
        await send(http, 'DELETE /users/9');
        await focused(page, '#detail-state button');
        await page.locator('tr[data-id="10"] a').focus();
        await page.route('**/users?*', (route) => route.fulfill({ status: 500, json: { error: 'x' } }));
        await page.evaluate("document.querySelector('#refresh-button').click()");
        await focused(page, '#list-state button');
        await page.unroute('**/users?*');
        await page.keyboard.press('Enter');
      },
    );

    await t.test('Escape closes the list of requests, and its button has the focus', async () => {
      await page.locator('#dock-toggle').press('Enter');
      await page.getByLabel('gRPC port').press('Escape');
      await focused(page, '#dock-toggle[aria-expanded="false"]');
      await page.keyboard.press('Escape');
      assert.equal(await page.locator('#dock-list').isVisible(), false, 'Escape must not open the list');
    });

    await t.test('a dialog keeps the focus inside', async () => {
      await showView(page, '/');
      await page.getByRole('button', { name: 'New user' }).click();
      for (let presses = 0; presses < 8; presses += 1) {
        await page.keyboard.press('Tab');
        const outside = await page.locator(':focus:not(#new-user-dialog *):not(body)').count();
        assert.equal(outside, 0);
      }
    });

    await t.test(
      'a user can be created with the keyboard, and its dialog returns the focus when it closes',
      async () => {
        await showView(page, '/');
        await beforeFirst(page);
        await tabTo(page, '#new-user-button');
        await page.keyboard.press('Enter');
        await focused(page, '#new-name');
        await page.keyboard.press('Escape');
        await focused(page, '#new-user-button');
        await page.keyboard.press('Enter');
        await focused(page, '#new-name');
        await page.keyboard.type('Ada');
        await page.keyboard.press('Tab');
        await page.keyboard.type('admin');
        await page.keyboard.press('Enter');
        await announced(page, 'Created Ada as user 13');
        await focused(page, '#detail-heading');
      },
    );
  });

  test('sorting, paging and counting do not lose the focus', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, numbered(25));
    const page = await open(t, `${http}/`);
    await firstNameIs(page, 'user 001');
    await tabTo(page, 'th[data-sort="name"] button');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Space');
    await firstNameIs(page, 'user 025');
    await focused(page, 'th[data-sort="name"] button');
    await tabTo(page, '#page-next');
    await page.keyboard.press('Enter');
    await firstNameIs(page, 'user 005');
    await focused(page, '#page-next');
    await page.keyboard.press('Enter');
    await focused(page, '#page-next');
    assert.equal(await page.locator('#page-next').getAttribute('aria-disabled'), 'true');
    // On a single page, the buttons disappear.
    for (const id of [1, 2, 3, 4, 5]) await send(http, `DELETE /users/${id}`);
    await page.locator('#page-prev').focus();
    await page.keyboard.press('Enter');
    await focused(page, '#users-heading');
  });
});
