import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser } from '../kit/browser.ts';
import { send } from '../support/client.ts';
import { expectAway, useBrowser } from './pages.ts';
import { addUsers, advance, firstNameIs, settled } from './people.ts';
import { startService } from './service.ts';

/** The pause of the page after each poll. */
const pollMs = 2_000;

/** Advances the clock of the page to its next poll, and waits for the result. */
async function poll(page: Page): Promise<void> {
  const answered = page.waitForResponse('**/metrics');
  await page.clock.runFor(pollMs);
  await answered;
}

suite('console: live figures', { skip: noBrowser, concurrency: 2 }, () => {
  const open = useBrowser();

  test('the figures show health, readiness and request rates without the polls of the page', async (t) => {
    const { http } = await startService(t);
    await addUsers(http, [{ name: 'Ada' }]);
    // A window repeats all steps of its clock in each later page, and this test has many.
    const page = await open(t, `${http}/`, { clock: true, fresh: true });
    await firstNameIs(page, 'Ada');
    await page
      .getByRole('status')
      .filter({ hasText: /Health\s*Healthy\s*Readiness\s*Ready/ })
      .waitFor();
    const figures = page.getByRole('region', { name: 'Live figures' });
    for (let i = 0; i < 12; i += 1) await send(http, 'GET /users/1');
    await poll(page);
    await page.locator('#p50-value', { hasText: /^[\d.]+ m?s$/ }).waitFor();
    await page.locator('#latency-need', { hasText: /^p99 needs 100 requests a minute, has 1\d$/ }).waitFor();
    assert.equal(await page.locator('#p99-value').textContent(), '–');
    for (let i = 0; i < 90; i += 1) await send(http, 'GET /users/1');
    for (let i = 0; i < 4; i += 1) await send(http, 'GET /users/2');
    await poll(page);
    await page.locator('#latency-need', { hasText: /^$/ }).waitFor();
    await page.locator('#rate-value', { hasText: /^\d*\.?\d*[1-9]/ }).waitFor();
    await page.locator('#client-error-value', { hasText: /^\d*\.?\d*[1-9]/ }).waitFor();
    await page.locator('#p99-value', { hasText: /^[\d.]+ m?s$/ }).waitFor();
    assert.ok((await figures.locator('#rate-chart path').count()) > 0);
    const label = await figures.locator('#rate-chart').getAttribute('aria-label');
    assert.match(label ?? '', /^Requests per second over the last two minutes, at most \d/);
    for (let i = 0; i < 6; i += 1) await poll(page);
    await page.locator('#rate-value', { hasText: /^0$/ }).waitFor();
    for (let i = 0; i < 26; i += 1) await poll(page);
    await page.locator('#p50-value', { hasText: '–' }).waitFor();
    await page.locator('#latency-need', { hasText: 'p50 needs 10 requests a minute' }).waitFor();
  });

  test('the figures compare only counters of the same copy of the service', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank', { clock: true });
    // Two copies respond in turn, and the second one restarts after its second response.
    const polls = [
      [1, 300],
      [2, 300_000],
      [1, 320],
      [2, 300_020],
      [3, 0],
      [1, 340],
      [3, 400],
    ];
    let asked = 0;
    await page.route('**/metrics', (route) => {
      const [startedAt, requests] = polls[asked] ?? [];
      asked += 1;
      const lines = [
        `users_service_start_time_seconds ${startedAt}`,
        `users_service_requests_total{route="/users",status="200"} ${requests}`,
      ];
      return route.fulfill({ body: `${lines.join('\n')}\n` });
    });
    await page.goto(`${http}/`);
    await page.getByText('Healthy').waitFor();
    for (const _ of polls.slice(1)) await poll(page);
    // The new process has counted 400 requests in at least 4 s.
    await page.locator('#rate-value', { hasText: /^\d\d/ }).waitFor();
    // No request was timed, so a screen reader must not announce a latency.
    await page.getByRole('img', { name: 'Latency over the last two minutes', exact: true }).waitFor();
    await page.getByRole('img', { name: 'Errors per second over the last two minutes, at most 0' }).waitFor();
    await page.locator('#rate-peak', { hasText: /^peak \d{1,3}(\.\d+)?$/ }).waitFor();
  });

  test('the figures are not requested by two polls at the same time when the API key changes', async (t) => {
    const { http } = await startService(t, { auth: 'writes', apiKeys: ['key'] });
    const page = await open(t, `${http}/`, { clock: true });
    await page.getByRole('banner').getByRole('button', { name: 'Add API key' }).click();
    await page.getByRole('dialog', { name: 'API key' }).getByLabel('Key').fill('key');
    const reached = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    let [polls, mostPolls] = [0, 0];
    await page.route('**/metrics', async (route) => {
      polls += 1;
      mostPolls = Math.max(mostPolls, polls);
      reached.resolve();
      await held.promise;
      await route.continue();
    });
    // On a slow machine the page may give up and poll again.
    page.on('requestfailed', (request) => {
      if (request.url().endsWith('/metrics')) polls -= 1;
    });
    // After a poll without a key was refused, the next one follows 30 s later.
    await page.clock.fastForward(30_000);
    await reached.promise;
    const followed = page.waitForResponse('**/changes');
    await page.keyboard.press('Enter');
    await followed;
    assert.equal(mostPolls, 1);
    held.resolve();
  });

  test('the figures are requested rarely with a key that was rejected, and at once with another key', async (t) => {
    const apiKeys = ['a-key', 'reader:read=r1'];
    const { http } = await startService(t, { auth: 'writes', apiKeys });
    const page = await open(t, 'about:blank', { clock: true, fresh: true });
    let asked = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/metrics')) asked += 1;
    });
    const enter = async (key: string) => {
      await page.locator('#key-button').click();
      await page.getByRole('dialog', { name: 'API key' }).getByLabel('Key').fill(key);
      await page.keyboard.press('Enter');
      // A poll that is running does not have the new key.
      await advance(page, 4_000, pollMs);
    };
    await page.clock.pauseAt(Date.now() + 10_000);
    await page.goto(`${http}/`);
    await page.getByText('The figures need an API key.').waitFor();
    await advance(page, 20_000, 2 * pollMs);
    assert.equal(asked, 1);
    await advance(page, 16_000, 2 * pollMs);
    assert.equal(asked, 2);
    await enter('r1');
    await page.getByText('Your API key does not cover the figures.').waitFor();
    await advance(page, 20_000, 2 * pollMs);
    assert.equal(asked, 3);
    await enter('a-key');
    await page.getByText('The charts show the last two minutes').waitFor();
    await advance(page, 10_000, pollMs);
    assert.ok(asked > 4, `${asked}`);
  });

  test('the figures show readiness and health separately, and why there are no request rates', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, 'about:blank');
    await page.route('**/health/ready', (route) =>
      route.fulfill({ status: 503, json: { error: 'the store does not answer' } }),
    );
    await page.route('**/metrics', (route) =>
      route.fulfill({ status: 404, json: { error: 'no such resource' } }),
    );
    await page.goto(`${http}/`);
    await page
      .getByRole('status')
      .filter({ hasText: /Health\s*Healthy\s*Readiness\s*Not ready/ })
      .waitFor();
    await page.getByText('No figures: /metrics responded 404').waitFor();
    // An extension of the browser may block the address.
    expectAway(t, http);
    await page.route('**/metrics', (route) => route.abort());
    await page.getByText('No figures: /metrics did not respond').waitFor();
  });

  test('the gaps of the figures on a page whose clock the test advances', async (t) => {
    const { http } = await startService(t);
    const page = await open(t, `${http}/`, { clock: true });
    await page.getByText('Healthy').waitFor();
    await poll(page);

    await t.test('figures are marked as not updated only during an outage', async () => {
      assert.equal(await page.locator('#live[data-stale]').count(), 0);
      await page.route('**/metrics', (route) => route.fulfill({ status: 503, json: { error: 'busy' } }));
      await poll(page);
      await page.getByText(/metrics responded 503\. Not updated since \d\d:\d\d:\d\d\./).waitFor();
      await page.locator('#live[data-stale]').waitFor();
      await page.unroute('**/metrics');
      await poll(page);
      await page.getByText('The charts show the last two minutes').waitFor();
      assert.equal(await page.locator('#live[data-stale]').count(), 0);
    });

    await t.test('figures begin again after the computer has slept or its clock was set back', async () => {
      const now: number = await page.evaluate('Date.now()');
      for (const time of [now + 3_600_000, now]) {
        for (let i = 0; i < 50; i += 1) await send(http, 'GET /users');
        // Only the date advances while a computer sleeps, not the monotonic clock.
        await page.clock.setSystemTime(time);
        await poll(page);
        await poll(page);
        await page.locator('#rate-peak', { hasText: /^$/ }).waitFor({ state: 'attached' });
        await page.locator('#rate-value', { hasText: /^0$/ }).waitFor();
      }
    });

    await t.test('figures are not requested while they are hidden', async () => {
      const setHidden = (hidden: boolean) =>
        page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
          document.dispatchEvent(new Event('visibilitychange'))`);
      await setHidden(true);
      let polls = 0;
      page.on('request', (request) => {
        if (request.url().endsWith('/metrics')) polls += 1;
      });
      await page.clock.runFor(20_000);
      assert.equal(polls, 0);
      for (let i = 0; i < 50; i += 1) await send(http, 'GET /users');
      const answered = page.waitForResponse('**/metrics');
      await setHidden(false);
      await answered;
      assert.equal(polls, 1);
      await poll(page);
      // The charts begin again, without the requests of the time without polls.
      await page.locator('#rate-peak', { hasText: /^$/ }).waitFor({ state: 'attached' });
      // A poll before the end of a pause begins a new pause.
      await page.clock.runFor(pollMs / 2);
      const early = page.waitForResponse('**/metrics');
      await setHidden(true);
      await setHidden(false);
      await early;
      await settled(page);
      polls = 0;
      await page.clock.runFor(pollMs / 2);
      await settled(page);
      assert.equal(polls, 0);
    });
  });
});
