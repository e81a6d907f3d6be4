import { validateError } from './openapi.ts';

export interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Checks that every error is as documented, including those from Node.js. Those to HEAD have no body. */
export function checkErrors(responses: readonly RawResponse[]): void {
  for (const response of responses) {
    if (response.status >= 400) validateError(response);
  }
}

/** The complete responses in the received bytes. */
export function parseResponses(bytes: Buffer, head: boolean): RawResponse[] {
  const responses: RawResponse[] = [];
  for (let at = 0; ; ) {
    const found = parseResponse(bytes.subarray(at), head);
    if (found === undefined) return responses;
    responses.push(found.response);
    at += found.length;
  }
}

/** The first response in the received bytes and its length, if it is complete. */
export function parseResponse(
  bytes: Buffer,
  head: boolean,
): { response: RawResponse; length: number } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const status = Number(statusLine.split(' ')[1]);
  const rest = bytes.subarray(end + 4);
  const bodiless = head || status === 100 || status === 204 || status === 304;
  const found = bodiless ? { body: '', length: 0 } : readBody(rest, headers);
  return found && { response: { status, headers, body: found.body }, length: end + 4 + found.length };
}

function readBody(
  bytes: Buffer,
  headers: Record<string, string>,
): { body: string; length: number } | undefined {
  if (headers['transfer-encoding'] === 'chunked') {
    const chunks: Buffer[] = [];
    let at = 0;
    for (;;) {
      const lineEnd = bytes.indexOf('\r\n', at);
      if (lineEnd === -1) return undefined;
      const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
      const next = lineEnd + 2 + size + 2;
      if (next > bytes.length) return undefined;
      if (size === 0) return { body: Buffer.concat(chunks).toString(), length: next };
      chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
      at = next;
    }
  }
  const length = Number(headers['content-length'] ?? bytes.length);
  return bytes.length < length ? undefined : { body: bytes.toString('utf8', 0, length), length };
}
