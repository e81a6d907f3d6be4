import assert from 'node:assert/strict';
import type { Page, Request } from 'playwright-core';
import { type Answer, send } from '../support/client.ts';

export interface Person {
  readonly name: string;
  readonly role?: string;
}

/** Creates users one after the other, so that the first gets id 1. */
export async function addUsers(http: string, people: readonly Person[]): Promise<void> {
  for (const person of people) {
    const { status } = await send(http, 'POST /users', { json: person });
    assert.equal(status, 201);
  }
}

/** `user 001`, `user 002` and so on, every third an admin. */
export function numbered(count: number): Person[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `user ${String(i + 1).padStart(3, '0')}`,
    ...(i % 3 === 0 && { role: 'admin' }),
  }));
}

/** A user as the service has it. */
export async function readUser(http: string, id: number): Promise<unknown> {
  return (await send(http, `GET /users/${id}`)).json;
}

/** Changes a user behind the page's back. */
export function changeUser(http: string, id: number, patch: object): Promise<Answer> {
  return send(http, `PATCH /users/${id}`, { json: patch });
}

/** The names in the table, once there are any. */
export async function namesIn(page: Page): Promise<string[]> {
  const names = page.locator('#user-rows th');
  await names.first().waitFor();
  return names.allTextContents();
}

/** Resolves when the table starts with this name. */
export async function firstNameIs(page: Page, name: string): Promise<void> {
  await page.locator('#user-rows tr:first-child th', { hasText: name }).waitFor();
}

/** The requests a page sends on users and posts from now on. */
export function recordRequests(page: Page): Request[] {
  const requests: Request[] = [];
  page.on('request', (request) => {
    if (new URL(request.url()).pathname.startsWith('/users')) requests.push(request);
  });
  return requests;
}

/** Opens a user by its name in the table and waits for the form. */
export async function openUser(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name, exact: true }).click();
  await page.getByRole('form', { name: 'Edit user' }).waitFor();
}

export async function said(page: Page, text: string): Promise<void> {
  await page.locator('#toasts', { hasText: text }).waitFor();
}
