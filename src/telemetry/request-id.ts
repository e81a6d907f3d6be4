import { randomBytes } from 'node:crypto';

const pattern = /^[\w.-]{1,64}$/;
// Told apart from those of other processes by chance, from one another by counting: random bytes for
// each took a fortieth of a GET.
const prefix = randomBytes(12).toString('base64url');
let made = 0;

/** The id a client gave its request, where it is one, else a new one. */
export function requestId(given: unknown): string {
  if (typeof given === 'string' && pattern.test(given)) return given;
  made += 1;
  return `${prefix}-${made.toString(36)}`;
}
