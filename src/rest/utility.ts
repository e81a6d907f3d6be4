import { DomainError, retryAfterSeconds } from '../domain/errors.ts';
import type { Repository } from '../domain/repository.ts';
import type { Handler } from '../http/listener.ts';
import { HttpError, json, jsonText } from '../http/reply.ts';

const noStore = { 'cache-control': 'no-store' };
// Probes give up after a few seconds, and a 503 contains a reason.
const readyTimeoutMs = 2_000;

/** Liveness: the process responds. It does not use the store, because a restart of the store must not restart us. */
export const health: Handler = () => json(200, { ok: true }, noStore);

/** Readiness: whether to send new requests here. `refusal` returns the reason if the service is not ready. */
export function ready(repository: Repository, refusal: () => string | undefined): Handler {
  return async () => {
    const reason = refusal();
    // This is not a failure, so no failure is reported.
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
  // The response to HEAD has the length of the response to GET.
  const shown = method === 'HEAD' ? 'GET' : method;
  return json(200, { method: shown, path: `${basePath}${target.path}`, headers: raw.headers }, noStore);
};

/** Returns the original text of the body, so that numbers and repeated keys do not change. */
export const echo: Handler = async (request) => {
  const { text } = await request.json(undefined, Number.POSITIVE_INFINITY);
  return jsonText(200, `{"youSent":${text}}`, noStore);
};

export const secret: Handler = () => json(200, { secretData: 42 }, noStore);

/** Always fails, to show and to test the response and the events of a failure. */
export const boom: Handler = () => {
  throw new DomainError('internal', 'boom', { cause: new Error('/boom was requested') });
};
