import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import type { Subject } from './subject.ts';

/** A check that a path returns this JSON. */
export function answersJson(path: string, expected: unknown) {
  return async ({ http }: Subject): Promise<void> => {
    const response = await fetch(http + path);
    assert.equal(response.status, 200, path);
    assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
    assert.deepEqual(await response.json(), expected);
  };
}

/** A check that a path returns these bytes. */
export function answersBytes(path: string, expected: Uint8Array) {
  return async ({ http }: Subject): Promise<void> => {
    const response = await fetch(http + path);
    assert.equal(response.status, 200, path);
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), expected);
  };
}

/** Fails unless an acknowledged user is in the file. */
export async function keepsUser({ http }: Subject, file: string): Promise<void> {
  const draft = { name: 'Kept User', role: 'member' };
  const response = await fetch(`${http}/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(draft),
  });
  assert.equal(response.status, 201);
  const { id } = (await response.json()) as { id: number };
  const db = new DatabaseSync(file, { readOnly: true });
  const kept = db.prepare('SELECT name, role FROM users WHERE id = ?').get(id);
  db.close();
  assert.deepEqual({ ...kept }, draft);
}
