import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { suite, type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { expectAway, useBrowser } from './pages.ts';
import { styleOf } from './people.ts';
import { startService } from './service.ts';

const description = JSON.parse(readFileSync(new URL('../../public/openapi.json', import.meta.url), 'utf8'));
const operations = Object.entries<Record<string, { summary: string; operationId: string }>>(
  description.paths,
).flatMap(([path, item]) =>
  Object.entries(item)
    .filter(([key]) => /^(get|put|post|delete|patch|head|options)$/.test(key))
    .map(([key, { summary, operationId }]) => ({
      id: operationId,
      summary,
      route: `${key.toUpperCase()}${path}`,
    })),
);

/** Gives the page another response for the description from now on. */
function respondWith(page: Page, status: number, body: string): Promise<unknown> {
  return page.route('**/openapi.json', (route) => route.fulfill({ status, body }));
}

suite('console: the page of the API', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();
  const openReference = async (t: TestContext, http: string, options = {}) => {
    const page = await open(t, `${http}/api.html`, options);
    await page.locator('article').first().waitFor();
    return page;
  };
  const article = (page: Page, name: string) => page.getByRole('article', { name, exact: true });

  test('the page of the API has all operations, and helps to find one', async (t) => {
    const { http } = await startService(t);
    const page = await openReference(t, http);

    await t.test(
      'the page shows and links every operation of the description under the name of its task',
      async () => {
        const titles = operations.map(({ summary }) => summary).toSorted();
        assert.deepEqual((await page.locator('article h3').allTextContents()).toSorted(), titles);
        await page.locator('p > code').getByText('/Users/GetUser', { exact: true }).waitFor();
        await page.locator('p > strong').getByText('Errors.', { exact: true }).waitFor();
        const routes = await page.locator('article .route').allTextContents();
        assert.deepEqual(routes.toSorted(), operations.map(({ route }) => route).toSorted());
        const links = page.getByRole('navigation', { name: 'Contents' }).getByRole('link');
        const others = ['Overview', 'Generate a client'];
        assert.deepEqual(
          (await links.locator('span:last-child').allTextContents()).toSorted(),
          [...titles, ...others].toSorted(),
        );
      },
    );

    await t.test('the page links to the gRPC contract, which the service serves', async () => {
      const commands = await page.locator('#clients pre').allTextContents();
      assert.match(commands[0] ?? '', new RegExp(` openapi-typescript ${http}/openapi.json -o `));
      assert.match(commands[1] ?? '', new RegExp(` -i ${http}/openapi.json -o `));
      assert.match(commands[2] ?? '', new RegExp(`^curl -O ${http}/users.proto\n.*\n.* users.proto$`));
      const href = await page.getByRole('link', { name: 'users.proto' }).first().getAttribute('href');
      const served = await fetch(new URL(href ?? '', `${http}/api.html`));
      const contract = await readFile(new URL('../../proto/users.proto', import.meta.url), 'utf8');
      assert.equal(await served.text(), contract);
    });

    await t.test('the contents mark the operation in view', async () => {
      const active = page.locator('#contents a[aria-current]');
      assert.equal(await active.textContent(), 'Overview');
      await article(page, 'Delete a user').evaluate((element) => element.scrollIntoView());
      await active.filter({ hasText: 'Delete a user' }).waitFor();
      assert.equal(await active.count(), 1);
    });

    await t.test('an operation has its parameters, folded schemas, statuses and examples', async () => {
      const list = article(page, 'List users');
      await list.getByText('query · integer, 1 to 100, default 20').waitFor();
      await list.getByText(`curl -i ${http}/users`, { exact: true }).waitFor();
      await list.getByRole('heading', { name: 'Response 200' }).waitFor();
      await article(page, 'Get a user').getByText('path · required · integer').waitFor();
      const check = article(page, 'Check that the process is running');
      assert.equal(await check.getByRole('heading', { name: 'Parameters' }).count(), 0);
      // The description has no example of this list, only one of its items.
      const posts = article(page, "List a user's posts");
      await posts.locator('.samples').getByText('[ { "id": 1, "userId": 1, "title": "Notes",').waitFor();
      const create = article(page, 'Create a user');
      assert.equal(await create.locator('dt', { hasText: 'role' }).first().isVisible(), false);
      await create.getByText('Request body name, role').click();
      await create.getByText('required · string, 1 to 200 characters').first().waitFor();
      const role = article(page, 'Update a user').getByText('string or null, 1 to 50 characters');
      await role.waitFor({ state: 'attached' });
      const next = await create.locator('h4:text-is("Responses") + *').textContent();
      assert.match(next ?? '', /^201/, 'a status is above its schemas');
      await create.getByText(/^Errors .*415/).click();
      await create.getByText('"error":').first().waitFor();
    });

    await t.test('a filter shows only matching operations on the page and in the contents', async () => {
      await article(page, 'Delete a user').evaluate((element) => element.scrollIntoView());
      await page.keyboard.press('/');
      await page.keyboard.type('idempotency key');
      await page.getByText(`2 of ${operations.length} operations`).waitFor();
      assert.deepEqual(await page.locator('article:visible h3').allTextContents(), [
        'Create a user',
        'Create a post',
      ]);
      const { y = -1 } = (await article(page, 'Create a user').boundingBox()) ?? {};
      assert.ok(y >= 0 && y < 300, `the first match is at ${y}`);
      const links = page.locator('#contents .method + span:visible');
      assert.deepEqual(await links.allTextContents(), ['Create a user', 'Create a post']);
      await page.getByRole('searchbox').fill('absent-word');
      await page.getByText(`0 of ${operations.length} operations`).waitFor();
      await page.evaluate('scrollTo(0, 0)');
      await page.getByRole('searchbox').fill('');
      await article(page, 'List users').waitFor();
      assert.equal(await page.evaluate('scrollY'), 0, 'the page moves when the filter is cleared');
    });

    await t.test(
      'the chosen language of the examples is remembered, and marked also with forced colours',
      async () => {
        await article(page, 'List users').getByRole('button', { name: 'Python' }).click();
        await article(page, 'Create a user').getByText('import requests').waitFor();
        // A reload would restore the position of the page.
        await page.goto('about:blank');
        await page.goto(`${http}/api.html#createPost`);
        await article(page, 'Create a user').getByText('import requests').waitFor();
        await page.emulateMedia({ forcedColors: 'active' });
        const outline = (isPressed: boolean) =>
          styleOf(page, `.languages [aria-pressed="${isPressed}"]`, 'outlineStyle');
        assert.deepEqual([await outline(true), await outline(false)], ['solid', 'none']);
      },
    );

    await t.test('a fragment scrolls to its operation', async () => {
      const top = await page
        .locator('#createPost h3')
        .evaluate((element) => element.getBoundingClientRect().top);
      assert.ok(top >= 0 && top < 300, `the heading is at ${top}`);
    });
  });

  test('on a phone, operations are folded until a link in the contents opens one', async (t) => {
    const { http } = await startService(t);
    const page = await openReference(t, http, { width: 360, height: 740 });
    const sizes =
      'const { scrollWidth: width, scrollHeight: height } = document.documentElement; ({ width, height })';
    const { width, height } = await page.evaluate<{ width: number; height: number }>(sizes);
    assert.equal(width, 360);
    assert.ok(height < 5_000, `the page is ${height} px high`);
    await page.getByText('Contents: Overview').click();
    await page.locator('#contents').getByText('Update a user').click();
    await article(page, 'Update a user').getByText('Request body').waitFor();
    await page.getByText('Contents: Update a user').waitFor();
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 360);
  });

  test('"Try it" asks for a key once, sends the request and shows the response', async (t) => {
    const { http, service } = await startService(t, { auth: 'all', apiKeys: ['key'] });
    const page = await openReference(t, http);
    const create = article(page, 'Create a user');
    await create.getByText('Try it').click();
    await create.getByLabel('Body').fill('{"name":"<b>Grace</b>"}');
    await create.getByRole('button', { name: 'Send request' }).click();
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await dialog.getByRole('textbox', { name: 'Key' }).fill('wrong');
    await page.keyboard.press('Enter');
    await create.getByText('x-api-key is not a valid key').waitFor();
    await create.getByRole('button', { name: 'Send request' }).click();
    await dialog.getByText('The service does not accept this key').waitFor();
    await dialog.getByRole('textbox', { name: 'Key' }).fill('key');
    await page.keyboard.press('Enter');
    await create.getByText('201 Created').waitFor();
    await create.getByText('"name": "<b>Grace</b>"').waitFor();
    await create.locator('.samples > pre', { hasText: 'x-api-key: $API_KEY' }).waitFor();
    await create.getByText('Request as a curl line').click();
    const line = `curl -i -H 'content-type: application/json' -H "x-api-key: $API_KEY" -d '{"name":"<b>Grace</b>"}'`;
    await create.getByText(`${line} ${http}/users`, { exact: true }).waitFor();
    const get = article(page, 'Get a user');
    await get.getByText('Try it').click();
    await get.getByText('Headers', { exact: true }).click();
    await get.getByLabel('If-None-Match').fill('"1"');
    const [first, second] = await get
      .locator('.fold .fold .field')
      .evaluateAll((fields) => fields.map((field) => field.getBoundingClientRect()));
    assert.ok((second?.top ?? 0) - (first?.bottom ?? 0) > 8, 'a label is nearer to its own field');
    await get.getByRole('button', { name: 'Send request' }).click();
    await get.getByText('304 Not Modified').waitFor();
    await get.getByLabel('id', { exact: true }).fill('7');
    await get.getByLabel('If-None-Match').fill('');
    await get.getByRole('button', { name: 'Send request' }).click();
    await get.getByText('"error": "user 7 not found"').waitFor();
    // A screen reader reads only this part at once.
    assert.match((await get.getByRole('status').textContent()) ?? '', /^404 Not Found \d+ ms$/);
    for (const task of ['Replace a user', 'Update a user', 'Create a post', 'Delete a user']) {
      const form = article(page, task);
      await form.getByText('Try it').click();
      await form.getByRole('button', { name: 'Send request' }).click();
      assert.equal(await form.locator('input:invalid').count(), 1, `${task}: no record is chosen`);
    }
    for (const [task, isWrite] of [
      ['Create a post', true],
      ['Echo a JSON value', false],
    ] as const) {
      const hint = article(page, task).getByText('changes the data of this service');
      assert.equal(await hint.count(), isWrite ? 1 : 0, task);
    }
    await get.getByLabel('If-None-Match').fill('鍵');
    await get.getByRole('button', { name: 'Send request' }).click();
    await get.getByText('If-None-Match has a character that no header can have.').waitFor();
    const remove = article(page, 'Delete a user');
    await remove.getByLabel('id', { exact: true }).fill(' ');
    await remove.getByRole('button', { name: 'Send request' }).click();
    await remove.getByText('404 Not Found').waitFor();
    await remove.getByLabel('id', { exact: true }).fill('1');
    await remove.getByRole('button', { name: 'Send request' }).click();
    await remove.getByText('204 No Content').waitFor();
    await remove.locator('button[type="submit"][aria-disabled="false"]:focus').waitFor();
    const failing = 'new ReadableStream({ pull: (body) => body.error(new TypeError("network error")) })';
    await page.evaluate(`{ const send = fetch; window.fetch = async () => {
      window.fetch = send;
      return new Response(${failing});
    } }`);
    await remove.getByRole('button', { name: 'Send request' }).click();
    await remove.getByRole('status').getByText('The response is not complete.').waitFor();
    expectAway(t, http);
    await service.close();
    await remove.getByRole('button', { name: 'Send request' }).click();
    await remove.getByRole('status').getByText('The service did not respond.').waitFor();
  });

  test('a description that fails or is unusual, on one page', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank');

    await t.test(
      'a description that is absent, fails or is not one shows an error, and can be requested again',
      async () => {
        const again = page.getByRole('button', { name: 'Try again' });
        for (const [status, body, message] of [
          [404, '{"error":"no such resource"}', 'This service has no /openapi.json'],
          [500, '{"error":"internal error"}', 'The service responded with 500 to /openapi.json'],
          [200, '<html>', '/openapi.json is not JSON'],
          [200, '[1,2]', '/openapi.json is not an OpenAPI description'],
        ] as const) {
          await respondWith(page, status, body);
          await (status === 404 ? page.goto(`${http}/api.html`) : again.click());
          await page.getByRole('alert').filter({ hasText: message }).waitFor();
        }
        await page.unroute('**/openapi.json');
        await again.click();
        await page.locator('article').first().waitFor();
        assert.equal(await page.getByText('The description cannot be shown').count(), 0);
      },
    );

    await t.test(
      'a description with circular references, values of the wrong type or markup is shown',
      async () => {
        for (const [n, paths] of [
          { '/a': { $ref: '#/paths/~1a' }, '/b': { get: { requestBody: { $ref: '#/x' } } } },
          { '/a~1': { get: {} }, '/b': { $ref: '#/paths/~1a~01' } },
          { '/b': { get: { tags: 5, parameters: {}, responses: [null], summary: {} } }, '/c': 7 },
          { '/b': { get: { summary: '', description: '<b>b</b> `<i>` <img src=x onerror=alert(1)>' } } },
        ].entries()) {
          await respondWith(page, 200, JSON.stringify({ openapi: `3.1.${n}`, paths }));
          // Another copy of the first module shows the description, which is faster than loading the page again.
          await page.evaluate(`document.querySelector('#reference-groups').replaceChildren();
            import('/reference/main.js?${n}')`);
          await page.getByText(`OpenAPI 3.1.${n}`).waitFor();
          await page.getByRole('article', { name: 'GET /b' }).waitFor();
          assert.equal(await page.locator('main img, main b, main i').count(), 0);
        }
      },
    );
  });
});
