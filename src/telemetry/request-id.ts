import { randomBytes } from 'node:crypto';

const pattern = /^[\w.-]{1,64}$/;
// The random prefix identifies the process, the counter a request of it.
const prefix = randomBytes(12).toString('base64url');
let count = 0;

/** The id that the client gave its request if it is valid, else a new one. */
export function requestId(given: unknown): string {
  if (typeof given === 'string' && pattern.test(given)) return given;
  count += 1;
  return `${prefix}-${count.toString(36)}`;
}
