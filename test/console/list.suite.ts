import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import {
  addUsers,
  advance,
  firstNameIs,
  isLive,
  namesIn,
  numbered,
  recordRequests,
  showView,
} from './people.ts';
import { startService } from './service.ts';

suite('console: list', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('a list that fails while the service is ready is read again after growing pauses, and not before its Retry-After', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank', { clock: true, fresh: true });
    let [reads, retryAfter] = [0, ''];
    await page.route('**/users?*', (route) => {
      reads += 1;
      const headers = { ...(retryAfter && { 'retry-after': retryAfter }) };
      return route.fulfill({ status: 503, headers, json: { error: 'busy' } });
    });
    await page.clock.pauseAt(new Date('2040-01-01T10:00:00'));
    await page.goto(`${http}/`);
    const expect = async (time: string) => {
      const text = `busy (503). The next attempt is at ${time}, if the service is ready then.`;
      await page.getByRole('status').filter({ hasText: text }).waitFor();
    };
    await expect('10:00:03');
    retryAfter = '14';
    await advance(page, 3_000, 1_000);
    await expect('10:00:17');
    retryAfter = '';
    await advance(page, 13_000, 1_000);
    assert.equal(reads, 2);
    await advance(page, 1_000);
    await expect('10:00:45');
    await advance(page, 28_000, 2_000);
    await expect('10:01:15');
    await page.unroute('**/users?*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('No users yet').waitFor();
    assert.equal(reads, 4);
  });

  test('a list of several pages', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, numbered(65));
    const page = await open(t, 'about:blank');
    const loading = recordRequests(page);

    await t.test('a list that fails shows the error and its request id, and can be retried', async () => {
      await page.route('**/users?*', (route) =>
        route.fulfill({
          status: 500,
          headers: { 'x-request-id': 'abc-123' },
          json: { error: 'internal error' },
        }),
      );
      await page.goto(`${http}/`);
      const message = page.getByRole('status').filter({ hasText: 'internal error (500)' });
      await message.getByText('Request id: abc-123').waitFor();
      await page.unroute('**/users?*');
      await message.getByRole('button', { name: 'Try again' }).click();
      await firstNameIs(page, 'user 001');
    });

    await t.test('a list and a user that fail without the store are shown when it is ready', async () => {
      const error = { status: 503, json: { error: 'the store does not answer' } };
      for (const path of ['**/users?*', '**/users/2', '**/health/ready'])
        await page.route(path, (route) => route.fulfill(error));
      await showView(page, '/users/2?limit=50');
      const failures = page.getByRole('status').filter({ hasText: 'the store does not answer (503)' });
      await failures.nth(1).waitFor();
      // It is read again only when the service is ready.
      await page.unroute('**/users?*');
      await page.unroute('**/users/2');
      // The list and the user each ask again. If each asked only once, there would be no third response.
      for (let asked = 0; asked < 3; asked += 1) await page.waitForResponse('**/health/ready');
      assert.equal(await failures.count(), 2);
      await page.unroute('**/health/ready');
      await page.getByText('User 2 · version').waitFor();
      await firstNameIs(page, 'user 001');
      assert.equal(await failures.count(), 0);
    });

    await t.test('the next page is shown from its top', async () => {
      await page.setViewportSize({ width: 1280, height: 500 });
      await showView(page, '/?limit=50');
      await page.locator('tr[data-id="50"]').waitFor();
      await page.getByRole('button', { name: 'Next' }).click();
      await firstNameIs(page, 'user 051');
      await page.locator('#page-next:focus').waitFor();
      // waitForFunction would evaluate a string in the page, which its policy forbids.
      const topOf = () => page.locator('#users').evaluate((element) => element.getBoundingClientRect().top);
      let top = await topOf();
      for (const end = Date.now() + 20_000; (top < 0 || top >= 120) && Date.now() < end; )
        top = await topOf();
      assert.ok(top >= 0 && top < 120, `the list starts at ${top}`);
      await page.setViewportSize({ width: 1280, height: 900 });
    });

    await t.test('users are counted only on request, and with the filter', async () => {
      await page.goto(`${http}/#/?limit=10`);
      await page.getByText('Rows 1–10').waitFor();
      assert.ok(loading.every((request) => request.headers()['prefer'] === undefined));
      const requests = recordRequests(page);
      // Only the first of two clicks sends a request.
      await page.evaluate("for (let i = 0; i < 2; i += 1) document.querySelector('#count-button').click()");
      await page.getByText('65 in all').waitFor();
      await page.locator('#count-button[aria-disabled="false"]').waitFor();
      assert.deepEqual(
        requests
          .filter((request) => request.method() === 'HEAD')
          .map((request) => request.headers()['prefer']),
        ['count=exact'],
      );
      // A count without a response ends when the filter changes.
      await page.route('**/users?limit=1', () => undefined);
      await page.getByRole('button', { name: 'Count all' }).click();
      await page.locator('#count-button[aria-disabled="true"]').waitFor();
      await page.getByRole('search').getByLabel('Role').fill('admin');
      // Without the filter, this row is not on the first page.
      await page.locator('tr[data-id="13"]').waitFor();
      assert.equal(await page.locator('#total').textContent(), '');
      await page.getByRole('button', { name: 'Count all', disabled: false }).click();
      await page.getByText('22 with the role admin').waitFor();
      await page.getByRole('button', { name: 'Refresh' }).click();
      await page.locator('#total', { hasText: /^$/ }).waitFor({ state: 'attached' });
    });

    await t.test(
      'the list pages from end to end with cursors and back along the same pages, with one request each',
      async () => {
        await page.goto(`${http}/#/`);
        await page.getByText('Rows 1–20').waitFor();
        const requests = recordRequests(page);
        const step = (name: string) =>
          page.getByRole('navigation', { name: 'Pages of users' }).getByRole('button', { name }).click();
        const disabled = () => page.locator('.pager button[aria-disabled="true"]').allTextContents();
        assert.deepEqual(await disabled(), ['First', 'Previous']);
        for (const [button, first, range, end] of [
          ['Next', 'user 021', 'Rows 21–40', []],
          ['Next', 'user 041', 'Rows 41–60', []],
          ['Next', 'user 061', 'Rows 61–65', ['Next']],
          ['Previous', 'user 041', 'Rows 41–60', []],
          ['First', 'user 001', 'Rows 1–20', ['First', 'Previous']],
        ] as const) {
          await step(button);
          await firstNameIs(page, first);
          await page.getByText(range).waitFor();
          assert.deepEqual(await disabled(), end);
        }
        assert.equal(requests.length, 5);
        assert.ok(requests.slice(0, 3).every((request) => request.url().includes('cursor=')));
      },
    );

    await t.test('the page size can be chosen, and the address contains the view', async () => {
      await page.goto(`${http}/#/`);
      await page.getByLabel('Rows').selectOption('10');
      await page.getByText('Rows 1–10').waitFor();
      await page.getByRole('columnheader', { name: 'Id' }).getByRole('button').click();
      await firstNameIs(page, 'user 065');
      await page.reload();
      await firstNameIs(page, 'user 065');
      assert.equal(new URL(page.url()).hash, '#/?sort=-id&limit=10');
    });

    await t.test('an invalid address shows the list with its defaults', async () => {
      await page.goto(`${http}/#/users/0x1?sort=password&limit=1000000&role=%00&page=-1`);
      await firstNameIs(page, 'user 001');
      assert.equal(await page.locator('#detail').isVisible(), false);
    });

    await t.test(
      'a new user outside the page is announced with a button to show it, until it is deleted',
      async () => {
        await page.goto(`${http}/#/`);
        await firstNameIs(page, 'user 001');
        const note = page.getByRole('status').filter({ hasText: 'It is not on this page.' });
        const place = await page.locator('#user-table').boundingBox();
        await isLive(page);
        for (const name of ['Amy', `Bea${'a'.repeat(197)}`, 'Zoe']) {
          await note.waitFor({ state: 'hidden' });
          await page.getByRole('button', { name: 'New user' }).click();
          await page.getByRole('dialog').getByLabel('Name').fill(name);
          await page.keyboard.press('Enter');
          await note.getByText(name).waitFor();
          if (name === 'Zoe') break;
          const { height = Number.NaN } = (await page.locator('#list-note').boundingBox()) ?? {};
          assert.ok(height < 60, `the note about ${name} is ${height} px high`);
          // Another person deletes Bea.
          if (name.startsWith('Bea')) await send(http, 'DELETE /users/67');
          else {
            await page.locator('#edit-delete').click();
            await page.getByRole('button', { name: 'Delete user' }).click();
          }
        }
        assert.match((await note.textContent()) ?? '', /Zoe is user 68\. It is not on this page\./);
        const [table, shown, dock] = await Promise.all(
          ['#user-table', '#list-note', '#dock'].map((part) => page.locator(part).boundingBox()),
        );
        assert.equal(table?.y, place?.y, 'the note must move no row');
        assert.ok(shown && dock && shown.y + shown.height <= dock.y, 'the note must be in view');
        await note.getByRole('button', { name: 'Show newest first' }).click();
        await firstNameIs(page, 'Zoe');
        assert.equal(await page.getByRole('link', { name: 'Zoe' }).getAttribute('aria-current'), 'true');
        await note.waitFor({ state: 'hidden' });
      },
    );
  });

  test('a list of one page', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank');

    await t.test('a list that a proxy answers with its own page shows that it is not JSON', async () => {
      await page.route('**/users?*', (route) => route.fulfill({ body: '<p>Sign in</p>' }));
      await page.goto(`${http}/`);
      await page
        .getByRole('status')
        .getByText('The response is not JSON, and may come from a proxy.')
        .waitFor();
      await page.getByRole('button', { name: 'Requests', exact: true }).click();
      const facts = await page.locator('.request-head').textContent();
      assert.match(facts ?? '', /^200 GET \/users · [\d.]+ m?s$/, 'each fact is shown once');
    });

    await t.test(
      'an empty list has a button for the first user but no pager or filter, and a list of one page has no pager',
      async () => {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.getByText('No users yet').waitFor();
        for (const id of ['#pager', '#name-filter', '#detail']) {
          assert.equal(await page.locator(id).isVisible(), false, id);
        }
        await page.getByRole('button', { name: 'Create a user' }).click();
        await page.getByRole('dialog', { name: 'New user' }).waitFor();
        await page.keyboard.press('Escape');
        await addUsers(http, [{ name: 'Bob' }, { name: 'Ada Lovelace' }, { name: 'Cid' }]);
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.getByText('Rows 1–3 of 3').waitFor();
        assert.equal(await page.locator('.pager button:visible').count(), 0);
        assert.equal(await page.locator('#name-filter').isVisible(), true);
      },
    );

    await t.test(
      'a user is opened by Enter or a click anywhere on its row, but not by selecting text with the mouse',
      async () => {
        const box = await page.getByRole('link', { name: 'Ada Lovelace' }).boundingBox();
        assert.ok(box !== null);
        await page.mouse.move(box.x + 1, box.y + box.height / 2);
        await page.mouse.down();
        await page.mouse.move(box.x + 60, box.y + box.height / 2, { steps: 4 });
        await page.mouse.up();
        assert.match(await page.evaluate('getSelection().toString()'), /^Ada L/);
        assert.equal(new URL(page.url()).hash, '');
        await page.getByRole('link', { name: 'Ada Lovelace' }).press('Enter');
        await page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor();
        assert.match(await page.evaluate('getSelection().toString()'), /^Ada L/);
        await page.locator('tr[data-id="1"] .col-role').click();
        await page.getByRole('heading', { name: 'Bob' }).waitFor();
        const opened = page.context().waitForEvent('page');
        await page.locator('tr[data-id="3"] .col-role').click({ modifiers: ['ControlOrMeta'] });
        const tab = await opened;
        await tab.getByRole('heading', { name: 'Cid' }).waitFor();
        await tab.close();
        assert.equal(new URL(page.url()).hash, '#/users/1');
      },
    );

    await t.test('a column heading sorts ascending and then descending, and shows the order', async () => {
      const heading = page.getByRole('columnheader', { name: 'Name' });
      for (const [order, names] of [
        ['ascending', ['Ada Lovelace', 'Bob', 'Cid']],
        ['descending', ['Cid', 'Bob', 'Ada Lovelace']],
        ['ascending', ['Ada Lovelace', 'Bob', 'Cid']],
      ] as const) {
        await heading.getByRole('button').click();
        await firstNameIs(page, names[0]);
        assert.equal(await heading.getAttribute('aria-sort'), order);
        assert.deepEqual(await namesIn(page), names);
      }
      assert.equal(await page.locator('th[aria-sort]').count(), 1);
    });
  });
});
