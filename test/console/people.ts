import assert from 'node:assert/strict';
import type { Locator, Page, Request, Route } from 'playwright-core';
import { type Answer, send } from '../support/client.ts';

export interface Person {
  readonly name: string;
  readonly role?: string;
}

/** Creates users, or users with these names, one after another, so that the first gets id 1. */
export async function addUsers(http: string, people: readonly (Person | string)[]): Promise<void> {
  for (const person of people) {
    const json = typeof person === 'string' ? { name: person } : person;
    const { status } = await send(http, 'POST /users', { json });
    assert.equal(status, 201);
  }
}

/** Adds posts with these titles to a user one after another, and resolves to their paths. */
export async function addPosts(http: string, user: string, titles: readonly string[], body = '') {
  const paths: string[] = [];
  for (const title of titles) {
    const { headers } = await send(http, `POST ${user}/posts`, { json: { title, body } });
    paths.push(String(headers.location));
  }
  return paths;
}

/** `user 001`, `user 002` and so on. Every third user is an admin. */
export function numbered(count: number): Person[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `user ${String(i + 1).padStart(3, '0')}`,
    ...(i % 3 === 0 && { role: 'admin' }),
  }));
}

/** Reads a user from the service. */
export async function readUser(http: string, id: number): Promise<unknown> {
  return (await send(http, `GET /users/${id}`)).json;
}

/** Changes a user without the page. */
export function changeUser(http: string, id: number, patch: object): Promise<Answer> {
  return send(http, `PATCH /users/${id}`, { json: patch });
}

/** The names in the table, as soon as it has rows. */
export async function namesIn(page: Page): Promise<string[]> {
  const names = page.locator('#user-rows th');
  await names.first().waitFor();
  return names.allTextContents();
}

/** Resolves when the table starts with this name. */
export async function firstNameIs(page: Page, name: string): Promise<void> {
  await page.locator('#user-rows tr:first-child th', { hasText: name }).waitFor();
}

/** Records the requests of a page about users and posts from now on. */
export function recordRequests(page: Page): Request[] {
  const requests: Request[] = [];
  page.on('request', (request) => {
    if (new URL(request.url()).pathname.startsWith('/users')) requests.push(request);
  });
  return requests;
}

/**
 * Resolves when the page has read the next response to such a request. Chromium reports some requests as canceled after
 * the last byte of their response was read.
 */
export function responseRead(page: Page, method: string, url: string): Promise<void> {
  const read = Promise.withResolvers<void>();
  const check = (request: Request) => {
    if (request.method() === method && request.url() === url) read.resolve();
  };
  page.on('requestfinished', check).on('requestfailed', check);
  return read.promise;
}

/** Handles the requests with this method to an address from now on. The others continue. */
export function intercept(
  page: Page,
  method: string,
  url: string,
  handle: (route: Route) => Promise<unknown>,
): Promise<unknown> {
  return page.route(url, (route) => (route.request().method() === method ? handle(route) : route.continue()));
}

/** Delays the requests with this method to an address until the returned function is called. */
export async function holdRequests(page: Page, method: string, url: string): Promise<() => void> {
  const held = Promise.withResolvers<void>();
  await intercept(page, method, url, async (route) => {
    await held.promise;
    await route.continue();
  });
  return held.resolve;
}

/** Delays the responses of this address to requests with this method from now on. */
export async function holdResponses(page: Page, url: string, method = 'GET') {
  const reached = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  await intercept(page, method, url, async (route) => {
    const response = await route.fetch();
    reached.resolve();
    await held.promise;
    await route.fulfill({ response });
    answered.resolve();
  });
  return { reached: reached.promise, release: held.resolve, answered: answered.promise };
}

/** Lets the requests of the page wait for a response for ever, instead of 15 s. */
export function waitPatiently(page: Page): Promise<void> {
  return page.evaluate(`{
    const { setTimeout } = globalThis;
    globalThis.setTimeout = (task, ms, ...values) => (ms === 15_000 ? 0 : setTimeout(task, ms, ...values));
  }`);
}

/** Resolves when the page has handled the responses before this one. */
export function settled(page: Page): Promise<unknown> {
  return page.evaluate("fetch('/health').then((response) => response.text())");
}

/** Shows another view of the open page, without the dialogs and messages of an earlier test. */
export function showView(page: Page, fragment: string): Promise<void> {
  // A request that is rejected before the `close` event does not open the dialog again.
  return page.evaluate(`(async () => {
    for (const dialog of document.querySelectorAll('dialog[open]')) {
      const closed = new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
      dialog.close();
      await closed;
    }
    document.querySelector('#toasts').replaceChildren();
    location.hash = '${fragment}';
  })()`);
}

/** Opens a user by its name in the table, and waits for the form. */
export async function openUser(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('form', { name: 'Edit user' }).waitFor();
}

/** Shows messages of a page after those that are waiting. */
export function announceIn(page: Page, ...texts: string[]): Promise<void> {
  return page.evaluate(`import('/console/ui/messages.js').then(({ announce }) => {
    for (const text of ${JSON.stringify(texts)}) announce(text);
  })`);
}

/** Records the messages of a page from now on, and resolves to a function that stops and returns them. */
export async function recordMessages(page: Page): Promise<() => Promise<string[]>> {
  await announceIn(page, 'Begin');
  await announced(page, 'Begin');
  await page.evaluate(`
    globalThis.messages = [];
    globalThis.messageObserver = new MutationObserver((changes) => {
      for (const { addedNodes } of changes) for (const { textContent } of addedNodes) messages.push(textContent);
    });
    messageObserver.observe(document.querySelector('#toasts'), { childList: true })`);
  return async () => {
    await announceIn(page, 'End');
    await announced(page, 'End');
    const messages = await page.evaluate<string[]>('messageObserver.disconnect(), messages');
    return messages.slice(0, -1);
  };
}

/** Advances the clock of the page in steps, and lets its requests have their responses after each step. */
export async function advance(page: Page, ms: number, stepMs = 500): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    await page.clock.runFor(stepMs);
    await settled(page);
  }
}

/** A computed style of an element, or of the pseudo-element at the end of the selector. */
export function styleOf(page: Page, selector: string, property: string): Promise<string> {
  const [element, pseudo = ''] = selector.split('::', 2);
  return page.evaluate(
    `getComputedStyle(document.querySelector('${element}'), '${pseudo && `::${pseudo}`}').${property}`,
  );
}

/** Types into the fields of a form with these labels, and saves it. */
export async function save(form: Locator, fields: Readonly<Record<string, string>>): Promise<void> {
  for (const [label, text] of Object.entries(fields)) await form.getByLabel(label).fill(text);
  await form.getByRole('button', { name: 'Save' }).click();
}

/** Resolves when the page follows the changes of others. */
export function isLive(page: Page): Promise<void> {
  return page.locator('#feed-state', { hasText: /^Live/ }).waitFor();
}

export async function announced(page: Page, text: string): Promise<void> {
  await page.locator('#toasts', { hasText: text }).waitFor();
}
