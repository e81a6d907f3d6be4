import type { Access } from '../domain/access.ts';
import { DomainError } from '../domain/errors.ts';
import type { Handler } from '../http/listener.ts';
import { json, jsonText } from '../http/reply.ts';

const noStore = { 'cache-control': 'no-store' };

/** Liveness: the process answers. It never asks the store, whose restart must not restart us. */
export const health: Handler = () => json(200, { ok: true }, noStore);

/** Readiness: whether new work should be sent here. `check` fails with the reason when it should not. */
export function ready(check: () => Promise<void>): Handler {
  return async () => {
    await check();
    return json(200, { ok: true }, noStore);
  };
}

export const info: Handler = ({ method, target, raw }) => {
  return json(200, { method, path: target.path, headers: raw.headers }, noStore);
};

/** The body comes back as its own text, so that numbers and repeated keys survive as they were sent. */
export const echo: Handler = async (request) => {
  const { text } = await request.json();
  return jsonText(200, `{"youSent":${text}}`, noStore);
};

export function secret(access: Access): Handler {
  return (request) => {
    access.require(request.header('x-api-key'));
    return json(200, { secretData: 42 }, noStore);
  };
}

/** Always fails, to show and to test what a failure looks like from outside and inside. */
export const boom: Handler = () => {
  throw new DomainError('internal', 'boom', { cause: new Error('/boom was asked for') });
};
