import assert from 'node:assert/strict';
import type { Subject } from './subject.ts';

/** A check that a path is answered with a status and this JSON. */
export function answersJson(path: string, expected: unknown, status = 200) {
  return async ({ http }: Subject): Promise<void> => {
    const response = await fetch(http + path);
    assert.equal(response.status, status, path);
    assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
    assert.deepEqual(await response.json(), expected);
  };
}

/** A check that a path is answered with these bytes. */
export function answersBytes(path: string, expected: Uint8Array) {
  return async ({ http }: Subject): Promise<void> => {
    const response = await fetch(http + path);
    assert.equal(response.status, 200, path);
    assert.deepEqual(new Uint8Array(await response.arrayBuffer()), expected);
  };
}
