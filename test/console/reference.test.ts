import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, useBrowser } from '../kit/browser.ts';
import { startService } from '../support/service.ts';

/** Opens the page with another answer for the description. */
async function openWith(page: Page, http: string, status: number, body: string): Promise<void> {
  await page.route('**/openapi.json', (route) => route.fulfill({ status, body }));
  await page.goto(`${http}/api.html`);
}

suite('console: the page of the API', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('shows every operation of the description', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/api.html`);
    await page.locator('article').first().waitFor();
    const description = JSON.parse(
      await readFile(new URL('../../public/openapi.json', import.meta.url), 'utf8'),
    );
    const operations = Object.entries<object>(description.paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((key) => /^(get|put|post|delete|patch|head|options)$/.test(key))
        .map((method) => `${method.toUpperCase()} ${path}`),
    );
    const shown = await page.locator('article h3').allTextContents();
    assert.deepEqual(shown.toSorted(), operations.toSorted());
    const linked = await page.getByRole('navigation', { name: 'Routes' }).getByRole('link').count();
    assert.equal(linked, operations.length);
  });

  test('an operation has its parameters, statuses, examples and a line to copy', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/api.html`);
    const list = page.getByRole('article', { name: 'GET /users', exact: true });
    await list.getByText('query · integer, 1 to 100, default 20').waitFor();
    await list.getByText(`curl -i ${http}/users`, { exact: true }).waitFor();
    await list.getByRole('heading', { name: 'Answer 200' }).waitFor();
    const create = page.getByRole('article', { name: 'POST /users', exact: true });
    await create.getByText('Body, as application/json').waitFor();
    await create.getByText(/^Failures: .*415/).click();
    await create.getByText('"error":').first().waitFor();
  });

  test('a fragment leads to its operation', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/api.html#createPost`);
    await page.locator('#createPost').waitFor();
    assert.ok(
      await page.locator('#createPost h3').evaluate((element) => element.getBoundingClientRect().top < 300),
    );
  });

  for (const [name, status, body, message] of [
    ['is absent', 404, '{"error":"no such resource"}', 'This server has no /openapi.json'],
    ['fails', 500, '{"error":"internal error"}', 'The server answered 500 for /openapi.json'],
    ['is not JSON', 200, '<html>', '/openapi.json is not JSON'],
    ['is something else', 200, '[1,2]', '/openapi.json is no OpenAPI description'],
  ] as const) {
    test(`says so when the description ${name}`, async (t) => {
      const { http } = await startService(t);
      const page = await open(t, 'about:blank');
      await openWith(page, http, status, body);
      await page.getByRole('alert').filter({ hasText: message }).waitFor();
      await page.unroute('**/openapi.json');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.locator('article').first().waitFor();
    });
  }

  for (const [name, paths] of [
    [
      'references in a circle',
      { '/a': { $ref: '#/paths/~1a' }, '/b': { get: { requestBody: { $ref: '#/x' } } } },
    ],
    [
      'wrong types all over',
      { '/b': { get: { tags: 5, parameters: {}, responses: [null], summary: {} } }, '/c': 7 },
    ],
    ['markup', { '/b': { get: { summary: '<img src=x onerror=alert(1)>', description: '<b>b</b> `<i>`' } } }],
  ] as const) {
    test(`bears ${name}`, async (t) => {
      const { http } = await startService(t);
      const page = await open(t, 'about:blank');
      await openWith(page, http, 200, JSON.stringify({ openapi: '3.1.1', paths }));
      await page.getByRole('article', { name: 'GET /b' }).waitFor();
      assert.equal(await page.locator('main img, main b, main i').count(), 0);
    });
  }
});
