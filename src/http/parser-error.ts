import { HttpError } from './http-error.ts';

/** What `node:http` reports when it cannot make a request of what a client sends. */
export interface ParserError {
  readonly code?: string;
  readonly reason?: string;
  /** Where in `rawPacket` the parser gave up. */
  readonly bytesParsed?: number;
  readonly rawPacket?: Uint8Array;
}

const tokenCharacter = /[!#$%&'*+.^_`|~0-9A-Za-z-]/;

/** The refusal a parser's failure amounts to; `undefined` when the connection itself failed. */
export function toRefusal(error: ParserError): HttpError | undefined {
  const { code = '' } = error;
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new HttpError(408, 'the request did not arrive in time');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new HttpError(413, 'the chunk extensions are too long');
    case 'HPE_HEADER_OVERFLOW':
      return new HttpError(431, 'the head of the request is too long');
    case 'HPE_PAUSED_H2_UPGRADE':
      return unknownVersion();
    case 'HPE_INVALID_VERSION':
      return error.reason === 'Invalid HTTP version' ? unknownVersion() : malformed();
    case 'HPE_INVALID_METHOD':
      return stoppedInToken(error) ? new HttpError(501, 'the method is not implemented') : malformed();
    default:
      return code.startsWith('HPE_') ? malformed() : undefined;
  }
}

// A method nobody knows is one thing, bytes that are no method at all (a TLS hello, say) another.
function stoppedInToken({ rawPacket, bytesParsed = 0 }: ParserError): boolean {
  const byte = rawPacket?.[bytesParsed];
  return byte !== undefined && tokenCharacter.test(String.fromCharCode(byte));
}

function unknownVersion(): HttpError {
  return new HttpError(505, 'the protocol must be HTTP/1.1');
}

function malformed(): HttpError {
  return new HttpError(400, 'the request is malformed');
}
