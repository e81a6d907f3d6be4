// @ts-check

/** A response that is not a success, with the message of the server. */
export class ApiError extends Error {
  /** @override */
  name = 'ApiError';

  /**
   * @param {number} status 0 when there was no response
   * @param {string} message
   * @param {string} [requestId] the id of the request in the log of the server
   */
  constructor(status, message, requestId) {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }

  /**
   * Reads `{"error": message}`. A proxy may respond in another form.
   * @param {Response} response
   * @param {string} text
   */
  static from(response, text) {
    const message = errorText(text) ?? `the server answered ${response.status} ${response.statusText}`.trim();
    return new ApiError(response.status, message, response.headers.get('x-request-id') ?? undefined);
  }
}

/**
 * @param {unknown} error
 * @param {number} status
 * @returns {error is ApiError}
 */
export function hasStatus(error, status) {
  return error instanceof ApiError && error.status === status;
}

/**
 * @param {string} text
 * @returns {string | undefined}
 */
function errorText(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}
