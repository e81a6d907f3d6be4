import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { expectAway, useBrowser } from './pages.ts';
import { addUsers, firstNameIs, openUser } from './people.ts';
import { startService } from './service.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary: string }[];
}

type Look = readonly [width: number, colorScheme: 'light' | 'dark'];

// The colours do not depend on the width, so the dark ones are checked where a page shows most.
const looksOfConsole: readonly Look[] = [
  [360, 'light'],
  [1600, 'light'],
  [1600, 'dark'],
];
// A dialog shows the same at each width.
const looksOfDialog: readonly Look[] = [
  [360, 'light'],
  [360, 'dark'],
];
const looksOfReference: readonly Look[] = [
  [360, 'light'],
  [360, 'dark'],
  [1600, 'light'],
];

const rulesWithoutColours = {
  'color-contrast': { enabled: false },
  'link-in-text-block': { enabled: false },
};

/**
 * Fails with the serious and critical problems that axe finds. In the dark scheme it checks only colours. The checks
 * of colours take most of the time, and `without` can leave them out.
 */
async function check(page: Page, state: string, looks: readonly Look[], without?: 'colours'): Promise<void> {
  if (!(await page.evaluate("'axe' in window"))) {
    // An invisible page has no colours.
    await page.evaluate(`document.adoptedStyleSheets = []; ${axe}; undefined`);
  }
  for (const [width, colorScheme] of looks) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    const scope = JSON.stringify({
      ...(colorScheme === 'dark' && { runOnly: ['color-contrast'] }),
      ...(without === 'colours' && { rules: rulesWithoutColours }),
    });
    // Only a rule about sound and video would need the files of the page, which axe would load again.
    const { violations } = await page.evaluate<{ violations: Violation[] }>(
      `axe.run(document, { resultTypes: ['violations'], preload: false, ...${scope} })`,
    );
    const found = violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, nodes }) => nodes.map((node) => `${id} ${node.target}: ${node.failureSummary}`));
    assert.deepEqual(found, [], `${state}, ${width} px, ${colorScheme}`);
  }
}

suite('console: accessibility', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('axe finds no serious problem in the list and the open user', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada', role: 'admin' }, { name: 'Bob' }]);
    await send(http, 'POST /users/1/posts', { json: { title: 'A title', body: 'some text' } });
    const page = await open(t, `${http}/`);
    await firstNameIs(page, 'Ada');
    await page.getByText('Healthy').waitFor();
    // A wide window also shows it beside the open user.
    await check(page, 'list', looksOfConsole.slice(0, 1));
    await openUser(page, 'Ada');
    await page.locator('.post').waitFor();
    await page.getByText('Write a post').click();
    await page.getByRole('form', { name: 'Edit user' }).getByLabel('Role').fill('NO');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.field-error').waitFor();
    await page.getByRole('button', { name: 'Edit A title' }).click();
    await page.getByRole('form', { name: 'Edit post' }).getByLabel('Title').fill('Another title');
    await page.getByRole('button', { name: 'Requests', exact: true }).click();
    await check(page, 'user, error, post, requests', looksOfConsole);
  });

  test('axe finds no serious problem in the dialogs', async (t) => {
    // Without the feed of changes, a conflict appears when the user is saved.
    const options = { auth: 'writes', apiKeys: ['key'], changesKept: false } as const;
    const { http } = await startService(t, options);
    const key = { 'x-api-key': 'key' };
    await send(http, 'POST /users', { json: { name: 'Ada' }, headers: key });
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version 1').waitFor();
    await page.getByRole('button', { name: 'Add API key' }).waitFor();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    await check(page, 'key', looksOfDialog);
    await page.getByRole('textbox', { name: 'Key' }).fill('key');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Delete this user?' }).waitFor();
    await check(page, 'delete', looksOfDialog);
    // With the new key, the page reads the user again.
    await page.locator('#detail[aria-busy="false"]').waitFor({ state: 'attached' });
    await send(http, 'PATCH /users/1', { json: { name: 'Theirs' }, headers: key });
    await page.getByRole('button', { name: 'Delete user' }).click();
    await page.getByText('It was changed after you opened it').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('form', { name: 'Edit user' }).getByLabel('Name').fill('Mine');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog', { name: 'Which change should be kept?' }).waitFor();
    await check(page, 'conflict', looksOfDialog);
  });

  test('axe finds no serious problem on the page of the API', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/api.html`, { width: 360 });
    await page.locator('article').first().waitFor();
    // All widths show the same articles, and axe takes long for all of them. In a narrow window they also scroll.
    await check(page, 'all operations', looksOfReference.slice(0, 1), 'colours');
    // The colours of an article are in earlier ones if all its kinds of elements are. axe would also walk through
    // a hidden article.
    await page.evaluate(`
      const seen = new Set();
      for (const article of document.querySelectorAll('article')) {
        const kinds = [...article.querySelectorAll('*')].map((element) =>
          [element.localName, element.className, ...Object.values(element.dataset)].join());
        if (kinds.every((kind) => seen.has(kind)) && article.id !== 'updateUser') article.remove();
        for (const kind of kinds) seen.add(kind);
      }`);
    await check(page, 'colours of the operations', looksOfReference.slice(0, 2));
    await page.keyboard.press('/');
    await page.keyboard.type('update a user');
    await page.getByText(/^\d of \d+ operations/).waitFor();
    await page.locator('#contents').getByText('Update a user').click();
    const update = page.getByRole('article', { name: 'Update a user' });
    await update.getByText('Request body').click();
    await update.getByText('Try it').click();
    await update.getByLabel('id', { exact: true }).fill('1');
    await update.getByRole('button', { name: 'Send request' }).click();
    await update.getByText('user 1 not found').last().waitFor();
    await page.getByText('Contents:').click();
    // They were checked above, and axe would walk through them again.
    await page.locator('article[hidden]').evaluateAll((articles) => {
      for (const article of articles) article.remove();
    });
    await check(page, 'an operation of the API', looksOfReference);
  });

  test('axe finds no serious problem without users and without a server', async (t) => {
    const { http, service } = await startService(t);
    const page = await open(t, `${http}/`);
    await page.getByText('No users yet').waitFor();
    await page.getByRole('button', { name: 'New user' }).click();
    await check(page, 'new user', looksOfDialog);
    await page.keyboard.press('Escape');
    expectAway(t, http);
    await service.close();
    await page.getByText('The service is not responding').waitFor();
    await check(page, 'away', looksOfConsole.slice(1));
  });

  test('a screen reader announces the rows of a page, errors and completed actions', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByRole('status').filter({ hasText: 'Row 1 of 1' }).waitFor();
    const form = page.getByRole('form', { name: 'Edit user' });
    await form.getByLabel('Name').fill('');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByRole('textbox', { description: 'Name must not be blank.' }).waitFor();
    await form.getByLabel('Name').fill('Ada L');
    await form.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('status').filter({ hasText: 'Saved Ada L' }).waitFor();
    // An element that appears together with its text may not be announced.
    await page.evaluate(`
      for (const status of document.querySelectorAll('[role="status"]'))
        if (status.checkVisibility()) status.dataset.before = ''`);
    const announced = (hasText: string) =>
      page.locator('[role="status"][data-before]').filter({ hasText, visible: true }).waitFor();
    await page.getByRole('searchbox', { name: 'Name' }).fill('x');
    await announced('No users whose names begin with “x”');
    await page.goto(`${http}/#/users/7?name=x`);
    await announced('There is no user 7');
    await page.getByRole('button', { name: 'New user' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('Bob');
    await page.keyboard.press('Enter');
    await announced('Bob is user 2. It is not on this page.');
  });
});
