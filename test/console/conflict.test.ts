import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, useBrowser } from '../kit/browser.ts';
import { startService } from '../support/service.ts';
import { addUsers, changeUser, firstNameIs, openUser, readUser, recordRequests, said } from './people.ts';

const conflictName = 'Somebody else has changed this user';

async function rename(page: Page, name: string): Promise<void> {
  const form = page.getByRole('form', { name: 'Edit user' });
  await form.getByLabel('Name').fill(name);
  await form.getByRole('button', { name: 'Save' }).click();
}

suite('console: conflicts', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('two windows: the second sees both versions and keeps its own', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada', role: 'admin' }]);
    const [first, second] = await Promise.all([open(t, `${http}/#/users/1`), open(t, `${http}/#/users/1`)]);
    await second.getByText('version "1"').waitFor();
    await rename(first, 'Ada of window one');
    await said(first, 'User 1 is saved');
    const requests = recordRequests(second);
    await rename(second, 'Ada of window two');
    const dialog = second.getByRole('dialog', { name: conflictName });
    await dialog.getByRole('row', { name: 'Name Ada of window two Ada of window one' }).waitFor();
    await dialog.getByRole('row', { name: 'Role admin admin' }).waitFor();
    await dialog.getByRole('button', { name: 'Keep mine' }).click();
    await said(second, 'User 1 is saved');
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Ada of window two', role: 'admin' });
    const put = requests.find((request) => request.method() === 'PUT');
    assert.equal(put?.headers()['if-match'], '"2"');
    await firstNameIs(second, 'Ada of window two');
  });

  test('taking theirs leaves the user as it is and shows it', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version "1"').waitFor();
    await changeUser(http, 1, { name: 'Theirs', role: 'editor' });
    await rename(page, 'Mine');
    const dialog = page.getByRole('dialog', { name: conflictName });
    await dialog.getByRole('row', { name: 'Role none editor' }).waitFor();
    await dialog.getByRole('button', { name: 'Take theirs' }).click();
    await page.getByRole('heading', { name: 'Theirs' }).waitFor();
    assert.equal(await page.getByRole('form').getByLabel('Name').inputValue(), 'Theirs');
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Theirs', role: 'editor' });
  });

  test('one more change during the choice is shown, too, and never overwritten unseen', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version "1"').waitFor();
    await changeUser(http, 1, { name: 'Second' });
    await rename(page, 'Mine');
    const dialog = page.getByRole('dialog', { name: conflictName });
    await dialog.getByRole('row', { name: 'Name Mine Second' }).waitFor();
    await changeUser(http, 1, { name: 'Third' });
    await dialog.getByRole('button', { name: 'Keep mine' }).click();
    await dialog.getByText('It was changed once more').waitFor();
    await dialog.getByRole('row', { name: 'Name Mine Third' }).waitFor();
    await dialog.getByRole('button', { name: 'Keep mine' }).click();
    await said(page, 'User 1 is saved');
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Mine' });
  });

  test('Escape puts the choice off: what was typed stays, and saving asks again', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version "1"').waitFor();
    await changeUser(http, 1, { name: 'Theirs' });
    await rename(page, 'Mine');
    const dialog = page.getByRole('dialog', { name: conflictName });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    const form = page.getByRole('form', { name: 'Edit user' });
    assert.equal(await form.getByLabel('Name').inputValue(), 'Mine');
    await form.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor();
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Theirs' });
  });

  test('two that meant the same have no conflict', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version "1"').waitFor();
    await changeUser(http, 1, { name: 'Ada Lovelace' });
    await rename(page, 'Ada Lovelace');
    await said(page, 'User 1 is saved');
    await page.getByText('version "2"').waitFor();
  });

  test('an edit gone on with after a reload knows that the user has changed', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/`);
    await openUser(page, 'Ada');
    await page.getByRole('form').getByLabel('Name').fill('Mine');
    await changeUser(http, 1, { name: 'Theirs' });
    await page.reload();
    await page.getByText('Changed by somebody else since you began').waitFor();
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog', { name: conflictName }).waitFor();
  });

  test('a user that changed is not deleted before its new version was seen', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    const page = await open(t, `${http}/#/users/1`);
    await page.getByText('version "1"').waitFor();
    await changeUser(http, 1, { name: 'Countess' });
    await page.getByRole('button', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete this user?' });
    await dialog.getByRole('button', { name: 'Delete user' }).click();
    await dialog.getByText('changed after you opened it').waitFor();
    await dialog.getByText('Countess').waitFor();
    assert.deepEqual(await readUser(http, 1), { id: 1, name: 'Countess' });
    await dialog.getByRole('button', { name: 'Delete user' }).click();
    await said(page, 'Deleted Countess');
  });
});
