import { DomainError, retryAfterSeconds } from '../domain/errors.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { HttpError, json, jsonText } from '../http/reply.ts';

const noStore = { 'cache-control': 'no-store' };
// Probes give up after a few seconds, and a 503 says more than no response.
const readyTimeoutMs = 2_000;

/** Liveness: the process answers. It never asks the store, whose restart must not restart us. */
export const health: Handler = () => json(200, { ok: true }, noStore);

/** Readiness: whether new work should be sent here. `refusal` says why not, where the service knows. */
export function ready(repository: Repository, refusal: () => string | undefined): Handler {
  return async () => {
    const reason = refusal();
    // Nothing failed, so nothing is reported.
    if (reason !== undefined) throw new HttpError(503, reason, { 'retry-after': String(retryAfterSeconds) });
    const signal = AbortSignal.timeout(readyTimeoutMs);
    try {
      await Promise.race([repository.ping({ signal }), expiry(signal)]);
    } catch (cause) {
      throw new DomainError('unavailable', 'the store does not answer', { cause });
    }
    return json(200, { ok: true }, noStore);
  };
}

function expiry(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

export const info: Handler = ({ method, basePath, target, raw }) => {
  // HEAD is answered with the length that GET would have.
  const shown = method === 'HEAD' ? 'GET' : method;
  return json(200, { method: shown, path: `${basePath}${target.path}`, headers: raw.headers }, noStore);
};

/** The body comes back as its own text, so that numbers and repeated keys survive as they were sent. */
export const echo: Handler = async (request) => {
  const { text } = await request.json(undefined, Number.POSITIVE_INFINITY);
  return jsonText(200, `{"youSent":${text}}`, noStore);
};

export const secret: Handler = () => json(200, { secretData: 42 }, noStore);

/** Always fails, to show and to test what a failure looks like from outside and inside. */
export const boom: Handler = () => {
  throw new DomainError('internal', 'boom', { cause: new Error('/boom was asked for') });
};
