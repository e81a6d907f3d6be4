import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { useBrowser } from './pages.ts';
import { addUsers, announced, firstNameIs, numbered, openUser, recordRequests } from './people.ts';
import { startService } from './service.ts';

const hashOf = (page: Page) => new URL(page.url()).hash;
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

suite('console: history of the browser', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('the history has the pages of the list and the opened users', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, numbered(35));
    const page = await open(t, `${http}/#/?limit=10`);
    /** Shows the third of four pages after the two before it. */
    const showThird = async () => {
      await page.goto(`${http}/#/?limit=10`);
      for (const name of ['user 001', 'user 011']) {
        await firstNameIs(page, name);
        await press(page, 'Next');
      }
      await firstNameIs(page, 'user 021');
    };

    await t.test(
      'Next and Previous add a step each, so that Back and Forward return to the pages',
      async () => {
        await showThird();
        await press(page, 'Previous');
        await firstNameIs(page, 'user 011');
        for (const [step, name, range] of [
          ['goBack', 'user 021', 'Rows 21–30'],
          ['goBack', 'user 011', 'Rows 11–20'],
          ['goBack', 'user 001', 'Rows 1–10'],
          ['goForward', 'user 011', 'Rows 11–20'],
        ] as const) {
          await page[step]();
          await firstNameIs(page, name);
          await page.getByText(range).waitFor();
        }
      },
    );

    await t.test(
      'a user that is opened and closed keeps the page of the list, also after a reload',
      async () => {
        await showThird();
        const requests = recordRequests(page);
        const lists = () => requests.filter((request) => request.url().includes('users?'));
        await openUser(page, 'user 025');
        assert.equal(await page.title(), 'user 025 · User 25 · users-service');
        await page.goBack();
        await page.locator('#detail').waitFor({ state: 'hidden' });
        assert.equal(await page.title(), 'Users · users-service');
        assert.equal(await page.getByRole('link', { name: 'user 025' }).getAttribute('aria-current'), null);
        assert.equal(lists().length, 0, 'the same page was read again');
        await openUser(page, 'user 025');
        // A link to the open user replaces its step.
        await page.getByRole('link', { name: 'user 025' }).click();
        await page.reload();
        await firstNameIs(page, 'user 021');
        await press(page, 'Close user');
        await page.locator('#detail').waitFor({ state: 'hidden' });
        await firstNameIs(page, 'user 021');
        assert.ok(lists().every((request) => request.url().includes('cursor=')));
        await press(page, 'Previous');
        await firstNameIs(page, 'user 011');
      },
    );

    await t.test('an address shows the same page in another tab, by its number', async (t) => {
      await showThird();
      assert.equal(hashOf(page), '#/?page=3&limit=10');
      const other = await open(t, page.url(), { beside: page });
      await firstNameIs(other, 'user 021');
      await press(other, 'Next');
      await firstNameIs(other, 'user 031');
      await press(other, 'Previous');
      await firstNameIs(other, 'user 021');
      await press(other, 'Previous');
      await firstNameIs(other, 'user 011');
    });

    await t.test('another order, filter or page size begins at the first page and adds no step', async () => {
      await showThird();
      const steps = () => page.evaluate<number>('history.length');
      for (const change of [
        () => page.getByRole('columnheader', { name: 'Id' }).getByRole('button').click(),
        () => page.getByLabel('Role', { exact: true }).fill('admin'),
        () => page.getByLabel('Rows').selectOption('20'),
      ]) {
        const before = await steps();
        await change();
        await page.getByText('Rows 1–').waitFor();
        assert.doesNotMatch(hashOf(page), /page=/);
        assert.equal(await steps(), before);
        await page.goBack();
        await firstNameIs(page, 'user 011');
        await page.getByText('Rows 11–20').waitFor();
        await press(page, 'Next');
        await firstNameIs(page, 'user 021');
      }
    });

    await t.test('a page whose cursor the service rejects is replaced with the first page', async () => {
      await showThird();
      await page.evaluate("history.replaceState({ visited: ['users?limit=10&cursor=old'] }, '')");
      await page.reload();
      await announced(page, 'That page is no longer available. This is the first page');
      await firstNameIs(page, 'user 001');
      assert.equal(hashOf(page), '#/?limit=10');
      await page.goBack();
      await firstNameIs(page, 'user 011');
    });

    await t.test('a fast second click on Next or Previous does not leave the pages', async () => {
      await showThird();
      await page.getByRole('button', { name: 'Next' }).dblclick();
      await page.getByText('Rows 31–35').waitFor();
      await page.goto(`${http}/#/?page=2&limit=10`);
      await page.getByText('Rows 11–20').waitFor();
      await page.getByRole('button', { name: 'Previous' }).dblclick();
      await page.getByText('Rows 1–10').waitFor();
      assert.equal(hashOf(page), '#/?limit=10');
      await page.goBack();
      await page.getByText('Rows 11–20').waitFor();
    });

    await t.test('a reload keeps the page with its cursor and the pages before it', async () => {
      await showThird();
      // By its number, the page would now begin with another user.
      await fetch(`${http}/users/1`, { method: 'DELETE' });
      const requests = recordRequests(page);
      await page.reload();
      await firstNameIs(page, 'user 021');
      await page.getByText('Rows 21–30').waitFor();
      await press(page, 'Previous');
      await firstNameIs(page, 'user 011');
      assert.ok(requests.every((request) => request.url().includes('cursor=')));
      await press(page, 'First');
      await firstNameIs(page, 'user 002');
    });

    await t.test(
      'a user that Back has opened behind the dialog of a deletion stays open after the deletion',
      async () => {
        await page.goto(`${http}/#/users/2`);
        await page.locator('#detail-heading', { hasText: 'user 002' }).waitFor();
        await openUser(page, 'user 003');
        await press(page, 'Delete…');
        await page.goBack();
        await page.locator('#detail-heading', { hasText: 'user 002' }).waitFor();
        await press(page, 'Delete user');
        await announced(page, 'Deleted user 003');
        await page.getByRole('link', { name: 'user 003' }).waitFor({ state: 'hidden' });
        assert.equal(hashOf(page), '#/users/2');
      },
    );
  });
});
