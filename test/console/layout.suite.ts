import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  announced,
  announceIn,
  firstNameIs,
  holdResponses,
  numbered,
  showView,
  styleOf,
} from './people.ts';
import { startService } from './service.ts';

suite('console: layout', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('a message covers no button, row or form at any width', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'W'.repeat(200) }, ...numbered(30)]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('Write a post').click();
    await page.evaluate("document.querySelector('#key-button').hidden = false");
    for (const [width, letter] of [
      [360, 'M'],
      [800, 'N'],
      [1440, 'O'],
    ] as const) {
      await page.setViewportSize({ width, height: 740 });
      await page.locator('#post-title').fill('A title');
      await page.getByRole('button', { name: 'Add post' }).click();
      await announced(page, 'Added the post');
      assert.ok(await isInHeader(page), `${width} px`);
      await page.locator('#edit-name').fill(letter.repeat(200));
      await page.getByRole('button', { name: 'Save' }).click();
      await announced(page, `Saved ${letter.repeat(3)}`);
      assert.ok(
        await isInHeader(page),
        `${width} px: the message must stay in the header even with a long name`,
      );
      const [height, shown] = await page
        .locator('.toast .text')
        .evaluate(({ scrollHeight, clientHeight }) => [scrollHeight, clientHeight]);
      assert.equal(height, shown, `${width} px: a long name must leave space for the rest of the message`);
    }
    const key = await page.locator('#key-button').boundingBox();
    assert.ok(key !== null && (await rightOf(page.locator('.toast'))) < key.x, 'the button of the key');
  });

  test('a message that another one follows at once stays until it can be read, and the last one 5 s', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/`, { clock: true });
    await page.getByText('No users yet').waitFor();
    await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 10_000'));
    await announceIn(page, 'First', 'Second', 'Third');
    for (const text of ['First', 'Second', 'Third']) {
      await page.locator('.toast', { hasText: text }).waitFor();
      await page.clock.runFor(1_400);
      assert.equal(await page.locator('#toasts').textContent(), text);
      await page.clock.runFor(100);
    }
    await page.clock.runFor(3_400);
    assert.equal(await page.locator('.toast[data-removed]').count(), 0);
    await page.clock.runFor(100);
    assert.equal(await page.locator('.toast:not([data-removed])').count(), 0);
  });

  test('with text of 16, 24 or 32 px, no page is wider than the window of a phone', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: ['key'] });
    const page = await open(t, `${http}/`, { width: 320, height: 740 });
    const session = await page.context().newCDPSession(page);
    const checkWidth = async () => {
      for (const [size, width] of [
        [16, 320],
        [24, 360],
        [32, 414],
      ] as const) {
        await session.send('Page.setFontSizes', { fontSizes: { standard: size } });
        await page.setViewportSize({ width, height: 740 });
        assert.equal(await page.evaluate('getComputedStyle(document.documentElement).fontSize'), `${size}px`);
        assert.equal(
          await page.evaluate('document.documentElement.scrollWidth > innerWidth'),
          false,
          `${page.url()}, ${size} px`,
        );
      }
    };
    await page.getByRole('textbox', { name: 'Key' }).fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('The service does not accept this key').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'API key: rejected' }).waitFor();
    for (const width of [353, 360]) {
      await page.setViewportSize({ width, height: 740 });
      const links = await page.getByRole('navigation', { name: 'Pages' }).boundingBox();
      assert.ok(links !== null && links.y >= 0, `${width} px: the header cuts off its links`);
    }
    await checkWidth();
    await page.goto(`${http}/api.html`);
    await page.locator('article').first().waitFor();
    await checkWidth();
    // Other tests use this page again.
    await session.send('Page.setFontSizes', { fontSizes: { standard: 16 } });
  });

  test('fields on a touch screen have text of 16 px, so that Safari does not zoom into them', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank', { width: 390, height: 844, fresh: true });
    const session = await page.context().newCDPSession(page);
    await session.send('Emulation.setTouchEmulationEnabled', { enabled: true });
    for (const path of ['', 'api.html']) {
      await page.goto(`${http}/${path}`);
      await page.locator('#key-input').waitFor({ state: 'attached' });
      const sizes = await page.evaluate<string[]>(
        "[...document.querySelectorAll('input, select, textarea')].map((field) => getComputedStyle(field).fontSize)",
      );
      assert.deepEqual([...new Set(sizes)], ['16px'], path);
    }
  });

  test('several views of one page', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, numbered(60));
    await send(http, 'POST /users/1/posts', { json: { title: 'A title' } });
    const page = await open(t, `${http}/`);

    await t.test(
      'on a phone and on paper the list of requests is at the end of the page instead of fixed at the bottom',
      async () => {
        await page.setViewportSize({ width: 360, height: 740 });
        await firstNameIs(page, 'user 001');
        const phone = await page.locator('#dock').boundingBox();
        assert.ok(phone !== null && phone.y > 740, 'the requests must be below the visible area');
        await page.getByRole('button', { name: 'Requests', exact: true }).click();
        for (let n = 0; n < 10; n += 1) {
          const read = page.waitForResponse('**/users?*');
          await page.getByRole('button', { name: 'Refresh' }).click();
          await read;
        }
        const [whole, body] = await page.evaluate<[number, number]>(
          '[document.documentElement.scrollHeight, Math.ceil(document.body.getBoundingClientRect().height)]',
        );
        assert.ok(whole <= body + 1, `the page of ${whole} px ends ${whole - body} px after the list`);
        await page.getByRole('button', { name: 'Requests', exact: true }).click();
        await page.setViewportSize({ width: 1280, height: 740 });
        const desk = await page.locator('#dock').boundingBox();
        assert.equal(desk === null ? 0 : Math.round(desk.y + desk.height), 740);
        await page.emulateMedia({ media: 'print' });
        assert.equal(await styleOf(page, '#dock', 'position'), 'static');
        // A panel that scrolls would be printed in part.
        await page.setViewportSize({ width: 1280, height: 600 });
        await showView(page, '/users/2');
        await page.getByText('No posts yet').waitFor();
        const heights = '[detail.scrollHeight, detail.clientHeight]';
        const [printed, shown] = await page.evaluate<[number, number]>(heights);
        assert.equal(printed, shown, 'the open user must be printed whole');
        await page.emulateMedia({ media: 'screen' });
      },
    );

    await t.test('the panel of a user has nearly the same height while the user is read', async () => {
      await page.setViewportSize({ width: 1280, height: 900 });
      const { reached, release } = await holdResponses(page, '**/users/3');
      await showView(page, '/users/3');
      await reached;
      const loading = await bottomOf(page.locator('#detail'));
      release();
      await page.getByText('User 3 · version').waitFor();
      await page.getByText('No posts yet').waitFor();
      const change = (await bottomOf(page.locator('#detail'))) - loading;
      assert.ok(Math.abs(change) < 100, `the height changes by ${change} px`);
      await showView(page, '/');
    });

    await t.test('each figure stays beside its unit', async () => {
      await page.evaluate(
        "for (const figure of document.querySelectorAll('.key')) figure.textContent = '100 ms'",
      );
      for (const width of [320, 640, 1000, 1280]) {
        await page.setViewportSize({ width, height: 740 });
        const distances = await page.evaluate<
          number[]
        >(`[...document.querySelectorAll('.key')].map((figure) => {
          const [value, unit] = [figure, figure.nextElementSibling].map((part) => part.getBoundingClientRect());
          return Math.round((unit.left - value.right) * Number(unit.top < value.bottom));
        })`);
        assert.ok(
          distances.every((distance) => distance > 0 && distance < 10),
          `${width} px: ${distances}`,
        );
      }
    });

    await t.test('the open list of requests covers neither the end of the page nor the focus', async () => {
      await page.setViewportSize({ width: 1280, height: 900 });
      await firstNameIs(page, 'user 001');
      await page.getByRole('button', { name: 'Requests', exact: true }).click();
      const isAbove = async (selector: string) => {
        const dock = await page.locator('#dock').boundingBox();
        return dock !== null && (await bottomOf(page.locator(selector))) <= dock.y;
      };
      await page.locator('tr[data-id="12"] a').focus();
      assert.ok(await isAbove('tr[data-id="12"] a'), 'the focused row');
      await page.evaluate('scrollTo(0, 1e6)');
      assert.ok(await isAbove('#page-next'), 'the last button');
      await page.getByRole('button', { name: 'Requests', exact: true }).click();
    });

    await t.test(
      'the column headings stay visible over a long list, and do not cover the focus',
      async () => {
        await showView(page, '/?limit=50');
        await page.locator('tr[data-id="50"]').waitFor();
        await page.locator('tr[data-id="40"]').evaluate((row) => row.scrollIntoView({ block: 'center' }));
        const header = await bottomOf(page.locator('.top'));
        const headings = await page.locator('th[data-sort="name"]').boundingBox();
        assert.ok(headings !== null && Math.abs(headings.y - header) < 1);
        const covered = page.locator('tr[data-id="20"]');
        await covered.evaluate(
          (row, y) => row.ownerDocument.defaultView?.scrollBy(0, row.getBoundingClientRect().y - y),
          header,
        );
        await covered.locator('a').focus();
        const name = await covered.boundingBox();
        assert.ok(name !== null && name.y >= headings.y + headings.height, 'the focused row');
      },
    );

    await t.test('neither the row nor a form of the open user grows by its first unsaved text', async () => {
      await showView(page, '/users/1');
      await page.getByRole('button', { name: 'Edit A title' }).click();
      await page.locator('#post-edit-title:focus').waitFor();
      await page.getByText('Write a post').click();
      const parts = ['tr[data-id="1"]', '#edit-form', '#post-form', '#post-edit-form'];
      const heights = async () => {
        const measured: unknown[] = [];
        for (const width of [360, 1280]) {
          await page.setViewportSize({ width, height: 900 });
          for (const part of parts) measured.push((await page.locator(part).boundingBox())?.height);
        }
        return measured;
      };
      const before = await heights();
      for (const field of ['edit-name', 'post-title', 'post-edit-title']) {
        await page.locator(`#${field}`).fill('changed');
      }
      await page.locator('#detail .unsaved:visible').nth(2).waitFor();
      assert.ok(await page.locator('tr[data-id="1"] .unsaved').isVisible());
      assert.deepEqual(await heights(), before);
      await page.locator('#post-title').fill('');
      await page.locator('#edit-role').fill('NO');
      await page.locator('#edit-save').click();
      await page.locator('#edit-role-problem').waitFor();
      assert.equal(
        (await page.locator('#edit-form').boundingBox())?.height,
        before[parts.length + 1],
        'the problem of a role is as high as the hint that it replaces',
      );
      for (const form of ['edit-form', 'post-edit-form']) {
        await page.locator(`#${form}`).getByRole('button', { name: 'Discard' }).click();
      }
      await showView(page, '/');
      await page.locator('#detail').waitFor({ state: 'hidden' });
    });

    await t.test(
      'with forced colours the open user, the state of a button and the series can be distinguished',
      async () => {
        await showView(page, '/users/1');
        await page.emulateMedia({ forcedColors: 'active' });
        await page.getByRole('heading', { name: 'user 001' }).waitFor();
        const background = (selector: string) => styleOf(page, selector, 'backgroundColor');
        assert.notEqual(await background('tr[data-id="1"] td'), await background('tr[data-id="2"] td'));
        assert.notEqual(
          await styleOf(page, '#edit-save', 'color'),
          await styleOf(page, '#edit-delete', 'color'),
        );
        assert.notEqual(await background('.key-1::before'), await background('.key-2::before'));
        assert.notEqual(await background('.key-2::before'), await background('.key-3::before'));
        const role = (id: number) => styleOf(page, `tr[data-id="${id}"] .pill`, 'color');
        await page.locator('tr[data-id="4"] .pill').waitFor();
        await page.locator('#edit-name').fill('changed');
        const mark = await background('tr[data-id="1"] .unsaved');
        assert.equal(
          mark,
          await background('#detail'),
          'the mark of the open user must have its own background',
        );
        assert.equal(await role(1), await role(4), 'the role of the open user must have a system colour');
        await page.emulateMedia({ forcedColors: 'none' });
      },
    );

    await t.test(
      'an outage is shown in the header at any scroll position and width, and moves nothing',
      async () => {
        const parts = ['#users', '#detail', 'th[data-sort="name"]', '.top nav', '#key-button'];
        const widths = [360, 800, 1000, 1440];
        const places = async () => {
          const measured: unknown[] = [];
          for (const width of widths) {
            await page.setViewportSize({ width, height: 740 });
            await page.evaluate('scrollTo(0, 0)');
            for (const part of parts) measured.push(await page.locator(part).boundingBox());
          }
          return measured;
        };
        await page.evaluate("document.querySelector('#key-button').hidden = false");
        await showView(page, '/users/1?limit=50');
        await page.locator('tr[data-id="50"]').waitFor();
        await page.getByText('User 1 · version').waitFor();
        // The first figures make the tiles higher.
        await page.locator('#rate-chart path, #latency-need:not(:empty)').first().waitFor();
        // On a busy machine, a late response to /metrics gives the panel a longer note until the next one.
        await page.locator('#live:not([data-stale])').waitFor();
        const before = await places();
        await page.evaluate('scrollTo(0, 1e6)');
        await page.route(/health|users/, (route) => route.fulfill({ status: 502, body: '' }));
        await page.getByRole('button', { name: 'Next' }).click();
        const banner = page.locator('.banner');
        await banner.waitFor();
        for (const width of widths) {
          await page.setViewportSize({ width, height: 740 });
          const bottom = await bottomOf(banner);
          assert.ok(bottom > 0 && bottom <= (await bottomOf(page.locator('.top'))), `${width} px: ${bottom}`);
          const hasLinks = await page.locator('.top nav a').first().isVisible();
          assert.equal(hasLinks, width > 960, `${width} px: a link below the banner can get the focus`);
        }
        const [nav, key, box] = await Promise.all(
          ['.top nav', '#key-button', '.banner'].map((part) => page.locator(part).boundingBox()),
        );
        assert.ok(nav && key && box && nav.x + nav.width <= box.x && box.x + box.width <= key.x);
        assert.deepEqual(await places(), before);
        // In a very narrow window the header scrolls out of it, and the column headings take its place.
        await page.setViewportSize({ width: 340, height: 740 });
        await page.getByRole('button', { name: 'Close user' }).click();
        await page.locator('th[data-sort="name"]').evaluate((heading) => heading.scrollIntoView());
        const isOnTop = "document.elementFromPoint(40, 20).closest('.banner') !== null";
        assert.ok(await page.evaluate(isOnTop));
      },
    );
  });
});

async function isInHeader(page: Page): Promise<boolean> {
  const header = await page.locator('.top').boundingBox();
  const toast = await page.locator('.toast').boundingBox();
  assert.ok(header !== null && toast !== null);
  assert.equal(header.y, 0, 'the header must be visible');
  return toast.y >= 0 && toast.y + toast.height <= header.height;
}

async function bottomOf(element: Locator): Promise<number> {
  const box = await element.boundingBox();
  return box === null ? Number.NaN : box.y + box.height;
}

async function rightOf(element: Locator): Promise<number> {
  const box = await element.boundingBox();
  return box === null ? Number.NaN : box.x + box.width;
}
