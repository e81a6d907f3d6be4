import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser, useBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { startService } from '../support/service.ts';
import { firstNameIs, recordRequests, said } from './people.ts';

const apiKey = 'a-secret-key';
const withKey = { headers: { 'x-api-key': apiKey } };

suite('console: API key', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('is asked for when the server wants one, and the request goes on by itself', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: [apiKey] });
    await send(http, 'POST /users', { json: { name: 'Ada' }, ...withKey });
    const page = await open(t, `${http}/`);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await dialog.getByText('x-api-key is required').waitFor();
    await page.getByText('The figures need an API key').waitFor({ state: 'attached' });
    await dialog.getByLabel('Key').fill('a-wrong-key');
    await page.keyboard.press('Enter');
    await dialog.getByText('x-api-key is not a valid key').waitFor();
    await dialog.getByLabel('Key').fill(apiKey);
    await page.keyboard.press('Enter');
    await firstNameIs(page, 'Ada');
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('Figures of the last two minutes').waitFor();
  });

  test('stays in this tab only, and out of every line shown', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: [apiKey] });
    const page = await open(t, `${http}/`);
    await page.getByRole('dialog', { name: 'API key' }).getByLabel('Key').fill(apiKey);
    await page.keyboard.press('Enter');
    await page.getByText('No users yet').waitFor();
    assert.equal(await page.evaluate('JSON.stringify(localStorage) + document.cookie'), '{}');
    assert.match(await page.evaluate('JSON.stringify(sessionStorage)'), /a-secret-key/);
    await page.getByRole('button', { name: 'Requests', exact: true }).click();
    assert.ok(!(await page.locator('body').allTextContents()).join().includes(apiKey));
    await page.locator('#request-list code', { hasText: '-H "x-api-key: $API_KEY"' }).first().waitFor();
    await page.reload();
    await page.getByText('No users yet').waitFor();
  });

  test('a write asks and then happens, where reading needs no key', async (t) => {
    const { http } = await startService(t, { auth: 'writes', apiKeys: [apiKey] });
    const page = await open(t, `${http}/`);
    await page.getByText('No users yet').waitFor();
    assert.equal(await page.locator('#key-button').isVisible(), false);
    await page.getByRole('button', { name: 'New user' }).click();
    await page.getByRole('dialog', { name: 'New user' }).getByLabel('Name').fill('Ada');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'API key' }).getByLabel('Key').fill(apiKey);
    await page.keyboard.press('Enter');
    await said(page, 'Created Ada as user 1');
  });

  test('declining leaves the words of the server and what was typed', async (t) => {
    const { http } = await startService(t, { auth: 'writes', apiKeys: [apiKey] });
    const page = await open(t, `${http}/`);
    await page.getByRole('button', { name: 'New user' }).click();
    const form = page.getByRole('dialog', { name: 'New user' });
    await form.getByLabel('Name').fill('Ada');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'API key' }).waitFor();
    await page.keyboard.press('Escape');
    await form.getByText('x-api-key is required (401)').waitFor();
    assert.equal(await form.getByLabel('Name').inputValue(), 'Ada');
  });

  test('a key that no header can carry is refused before it is sent', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: [apiKey] });
    const page = await open(t, `${http}/`);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await dialog.getByText('x-api-key is required').waitFor();
    const requests = recordRequests(page);
    await dialog.getByLabel('Key').fill('schlüssel 鍵');
    await page.keyboard.press('Enter');
    await dialog.getByText('visible ASCII').waitFor();
    assert.equal(requests.length, 0);
  });

  test('can be forgotten', async (t) => {
    const { http } = await startService(t, { auth: 'all', apiKeys: [apiKey] });
    const page = await open(t, `${http}/`);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await dialog.getByLabel('Key').fill(apiKey);
    await page.keyboard.press('Enter');
    await page.getByText('No users yet').waitFor();
    await page.getByRole('button', { name: 'API key: set' }).click();
    await dialog.getByRole('button', { name: 'Forget key' }).click();
    await page.getByRole('button', { name: 'API key: none' }).waitFor();
    assert.doesNotMatch(await page.evaluate('JSON.stringify(sessionStorage)'), /a-secret-key/);
  });
});
