import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { useBrowser } from './pages.ts';
import { addUsers, openUser, recordRequests, waitPatiently } from './people.ts';
import { startService } from './service.ts';

const people = [
  { name: 'Ada', role: 'admin' },
  { name: 'Adele', role: 'editor' },
  { name: 'Bob', role: 'admin' },
  { name: 'adam' },
];

/** All of them, in the order of their ids. */
const everyone = people.map(({ name }) => name);

suite('console: search', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('users can be searched by name and role', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, people);
    const page = await open(t, `${http}/`, { clock: true, fresh: true });
    await rowsAre(page, everyone);
    // The clock must not have reached this time when the call arrives.
    await page.clock.pauseAt(await page.evaluate<number>('Date.now() + 10_000'));
    const box = page.getByRole('search').getByRole('searchbox', { name: 'Name' });
    /** Shows this address, or the list of all users, as at the beginning. */
    const show = async (fragment?: string) => {
      await page.goto(`${http}/${fragment ?? '#/'}`);
      if (fragment === undefined) await rowsAre(page, everyone);
    };

    await t.test(
      'the slash key focuses the search box, except while text is typed or a dialog is open',
      async () => {
        await show();
        await page.keyboard.press('/');
        await page.locator('#name-filter:focus').waitFor();
        assert.equal(await box.inputValue(), '');
        await openUser(page, 'Ada');
        await page.locator('#edit-name').press('End');
        await page.keyboard.press('/');
        assert.equal(await page.locator('#edit-name').inputValue(), 'Ada/');
        await page.getByRole('button', { name: 'Delete…' }).click();
        await page.keyboard.press('/');
        await page.locator('#delete-dialog :focus').waitFor();
        assert.equal(await page.locator('#name-filter:focus').count(), 0);
        await page.keyboard.press('Escape');
      },
    );

    await t.test('a name, a role and an order can be combined, and the count uses them', async () => {
      await show('#/?sort=-name&limit=10');
      await rowsAre(page, ['adam', 'Bob', 'Adele', 'Ada']);
      await box.fill('Ad');
      await page.clock.runFor(250);
      await rowsAre(page, ['Adele', 'Ada']);
      await page.getByRole('search').getByLabel('Role').fill('admin');
      await page.clock.runFor(250);
      await rowsAre(page, ['Ada']);
      assert.equal(new URL(page.url()).hash, '#/?name=Ad&role=admin&sort=-name&limit=10');
      await page.getByRole('button', { name: 'Clear' }).click();
      await rowsAre(page, ['adam', 'Bob', 'Adele', 'Ada']);
      await page.locator('#name-filter:focus').waitFor();
    });

    await t.test(
      'Enter searches at once, without a second search after the pause or control characters',
      async () => {
        await show();
        const requests = recordRequests(page);
        await box.fill('B\to');
        await box.press('Enter');
        await rowsAre(page, ['Bob']);
        assert.equal(await box.inputValue(), 'Bo');
        await box.fill('Bob');
        await box.press('Enter');
        await page.clock.runFor(1_000);
        await rowsAre(page, ['Bob']);
        assert.equal(requests.length, 2);
      },
    );

    await t.test(
      'a typed role is applied after a pause or with Enter and can be removed, and an invalid one has no effect',
      async () => {
        await show();
        const requests = recordRequests(page);
        const role = page.getByRole('search').getByLabel('Role');
        await role.pressSequentially('No');
        await role.press('Tab');
        await page.clock.runFor(250);
        // The box that was left does not take the focus back.
        await page.locator('#page-size:focus').waitFor();
        await page.locator('#role-filter:user-invalid').waitFor();
        await role.fill('admin');
        assert.equal(requests.length, 0, 'a search was sent before the pause');
        await page.clock.runFor(250);
        await rowsAre(page, ['Ada', 'Bob']);
        await role.fill('No Role');
        await role.press('Enter');
        await page.clock.runFor(1_000);
        assert.equal(requests.length, 1);
        await role.fill('editor');
        await role.press('Enter');
        await rowsAre(page, ['Adele']);
        assert.equal(requests.length, 2);
        await role.fill('nobody');
        await role.press('Enter');
        await page.getByText('No users with the role nobody').waitFor();
        assert.equal(await page.locator('#list-state p').count(), 0);
        await page.getByRole('button', { name: 'Show all users' }).click();
        await rowsAre(page, everyone);
        assert.equal(await role.inputValue(), '');
      },
    );

    await t.test('a search cancels the one before it, which may have other users', async () => {
      await show();
      await waitPatiently(page);
      await page.route('**/users?name=Bob&*', () => undefined);
      const cancelled = page.waitForEvent('requestfailed', (request) => request.url().includes('name=Bob'));
      await box.fill('Bob');
      await box.press('Enter');
      await box.fill('Ada');
      await box.press('Enter');
      await cancelled;
      await rowsAre(page, ['Ada']);
      await page.unroute('**/users?name=Bob&*');
    });

    await t.test('Escape and the clear button clear the search at once', async () => {
      await show('#/?name=Bob');
      await rowsAre(page, ['Bob']);
      await box.press('Escape');
      await rowsAre(page, everyone);
      assert.equal(await box.inputValue(), '');
      assert.equal(new URL(page.url()).hash, '#/');
      await box.fill('Ada');
      await page.clock.runFor(250);
      await rowsAre(page, ['Ada']);
      const frame = await box.boundingBox();
      assert.ok(frame !== null);
      // The clear button is at the end of the search box.
      await page.mouse.click(frame.x + frame.width - 18, frame.y + frame.height / 2);
      await rowsAre(page, everyone);
    });

    await t.test('a search without a result shows a message and a button for all users', async () => {
      await show('#/?role=admin');
      await rowsAre(page, ['Ada', 'Bob']);
      await box.fill('Zoe');
      await page.clock.runFor(250);
      await page.getByText('No users with the role admin whose names begin with “Zoe”').waitFor();
      await page.getByText('Capital and small letters differ.').waitFor();
      await page.getByRole('button', { name: 'Show all users' }).click();
      await rowsAre(page, everyone);
      assert.equal(await box.inputValue(), '');
    });

    await t.test(
      'names are searched after a pause in typing, and the address contains the search',
      async () => {
        await show();
        const requests = recordRequests(page);
        for (const letter of ['A', 'd', 'e']) {
          await box.press(letter);
          await page.clock.runFor(249);
        }
        assert.equal(requests.length, 0, 'a search was sent before the pause');
        await page.clock.runFor(1);
        await rowsAre(page, ['Adele']);
        assert.equal(requests.length, 1);
        assert.equal(new URL(requests[0]?.url() ?? '').searchParams.get('name'), 'Ade');
        assert.equal(new URL(page.url()).hash, '#/?name=Ade');
        await page.locator('#name-filter:focus').waitFor();
        await page.reload();
        await rowsAre(page, ['Adele']);
        assert.equal(await box.inputValue(), 'Ade');
      },
    );

    await t.test('a user can be opened by its id, if no name begins with it', async () => {
      await show();
      const hint = page.getByText('Capital and small letters differ.');
      // An id has at most 10 digits.
      await box.fill('12345678901');
      await box.press('Enter');
      await hint.waitFor();
      await box.fill('3');
      await box.press('Enter');
      await page.getByRole('heading', { name: 'No users whose names begin with “3”' }).waitFor();
      assert.equal(await hint.isVisible(), false);
      await page.getByRole('button', { name: 'Open user 3' }).click();
      await page.getByRole('heading', { name: 'Bob' }).waitFor();
    });

    await t.test('a typed address can search for a question mark', async () => {
      await addUsers(http, [{ name: 'Who' }, { name: 'Who? Me' }]);
      await show('#/?name=Who?&sort=-id');
      await rowsAre(page, ['Who? Me']);
      assert.equal(await page.locator('#name-filter').inputValue(), 'Who?');
    });

    await t.test('the roles of the users that were listed are suggested in order', async () => {
      await addUsers(http, [{ name: 'Zed', role: 'actor' }]);
      await page.reload();
      await show('#/?sort=id');
      await page.locator('#known-roles option').nth(2).waitFor({ state: 'attached' });
      const roles = await page.locator('#known-roles').innerHTML();
      assert.deepEqual(roles.match(/(?<=value=")\w+/g), ['actor', 'admin', 'editor']);
    });
  });
});

/** Resolves when the table has exactly these names, in this order. */
async function rowsAre(page: Page, names: readonly string[]): Promise<void> {
  const rows = names.map((name, i) => `:has(tr:nth-child(${i + 1}) a[title="${name}"])`).join('');
  await page.locator(`#user-rows${rows}:not(:has(tr:nth-child(${names.length + 1})))`).waitFor();
}
