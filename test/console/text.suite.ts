import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { useBrowser } from './pages.ts';
import { addUsers, namesIn, openUser, showView, styleOf } from './people.ts';
import { startService } from './service.ts';

const long = 'W'.repeat(200);
const role = `r${'o'.repeat(49)}`;
const names = [
  '<img src=x onerror="document.title=`pwned`"><script>document.title="pwned"</script>',
  '"><b>bold</b>&amp;&lt;',
  'فاطمة الفهرية',
  'Frances Allen 👩🏽‍💻🏳️‍🌈',
  long,
  'שלום (Ada) 123',
  '‮evil‬ right to left override',
  '{{constructor}} \\u0041 %00',
  ' two  spaces',
];

suite('console: text of users', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('texts of users on one page', async (t) => {
    const { http } = await startService(t);
    await addUsers(
      http,
      names.map((name) => ({ name, role })),
    );
    for (const title of names.slice(0, 5)) {
      await send(http, 'POST /users/5/posts', { json: { title, body: `${title}\n${title}` } });
    }
    const page = await open(t, `${http}/`);

    await t.test('the text of users is shown as plain text, and does not widen the page', async () => {
      /** By how much the content of an element is wider than the element, at a narrow and a wide window. */
      const overflows = async (selector: string) => {
        const found: number[] = [];
        for (const width of [360, 1600]) {
          await page.setViewportSize({ width, height: 900 });
          found.push(
            await page.locator(selector).evaluate((element) => element.scrollWidth - element.clientWidth),
          );
        }
        return found;
      };
      assert.deepEqual(await namesIn(page), names);
      const shown = await page.locator('#user-rows a').allInnerTexts();
      assert.equal(shown.at(-1), names.at(-1), 'no space is missing');
      assert.deepEqual(await overflows('html'), [0, 0]);
      assert.equal(await page.locator('.pill').first().getAttribute('title'), role, 'the cut role');
      await openUser(page, long);
      await page.locator('.post').nth(4).waitFor();
      assert.deepEqual(await overflows('html'), [0, 0]);
      assert.deepEqual(await overflows('#detail'), [0, 0]);
      await page.getByRole('button', { name: 'Delete…' }).click();
      await page.getByRole('dialog').waitFor();
      assert.deepEqual(await overflows('dialog[open]'), [0, 0]);
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Requests', exact: true }).click();
      assert.deepEqual(await overflows('html'), [0, 0]);
      assert.equal(await page.locator('main b, main script, main img, #request-list b').count(), 0);
      assert.equal(await page.title(), `${long} · User 5 · users-service`);
    });

    await t.test('the text of users is shown in its own writing direction', async () => {
      await showView(page, '/users/3');
      await page.getByRole('heading', { name: 'فاطمة الفهرية' }).waitFor();
      for (const [selector, direction] of [
        ['#edit-name', 'rtl'],
        ['#user-rows [aria-current]', 'rtl'],
        ['body', 'ltr'],
      ] as const)
        assert.equal(await styleOf(page, selector, 'direction'), direction);
      await send(http, 'POST /users/3/posts', { json: { title: 'Two', body: 'فاطمة الفهرية\nFatima' } });
      const text = page.locator('.post-body');
      await page.getByRole('button', { name: 'Show 1 new post' }).click();
      await text.waitFor();
      const lines = await page.evaluate(`(() => {
        const body = document.querySelector('.post-body');
        const range = document.createRange();
        return [0, 14].map((start) => {
          range.setStart(body.firstChild, start);
          range.setEnd(body.firstChild, start + 1);
          const { left, right } = body.getBoundingClientRect();
          const first = range.getBoundingClientRect();
          return first.left - left < right - first.right ? 'left' : 'right';
        });
      })()`);
      assert.deepEqual(lines, ['right', 'left'], 'each paragraph of a post begins at its own side');
    });

    await t.test('the text of users is not changed by saving another field', async () => {
      // The markup, the mark of a direction and the spaces.
      const saved = [0, 6, 8];
      for (const index of saved) {
        await showView(page, `/users/${index + 1}`);
        await page.locator('#detail-heading', { hasText: names[index] ?? '' }).waitFor();
        const form = page.getByRole('form', { name: 'Edit user' });
        assert.equal(await form.getByLabel('Name').inputValue(), names[index]);
        await form.getByLabel('Role').fill('admin');
        await form.getByRole('button', { name: 'Save' }).click();
        await page.getByText('version 2').waitFor();
      }
      const { json } = await send(http, 'GET /users');
      assert.deepEqual(
        json,
        names.map((name, index) => ({ id: index + 1, name, role: saved.includes(index) ? 'admin' : role })),
      );
    });
  });
});
