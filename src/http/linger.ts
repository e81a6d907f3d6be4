import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

// A client still sending when it is refused learns why only if we go on reading for a while: closing
// with unread bytes resets the connection and takes the reply along.
const lingerBytes = 256 * 1024;
const lingerMs = 1_000;

/** Whether what is left of a request's body is too much, or too uncertain, to read it to the end. */
export function hasLongUnreadBody(message: IncomingMessage): boolean {
  if (message.complete) return false;
  if (message.headers['transfer-encoding'] !== undefined) return true;
  const length = Number(message.headers['content-length'] ?? 0);
  // Up to here it is cheaper to take the body than to lose the connection. Whoever sent Expect and got
  // no go-ahead may or may not send it: where the next request begins would be in doubt.
  return length > 64 * 1024 || (length > 0 && message.headers.expect !== undefined);
}

/** Ends a reply that is all written, and with it the connection, once its client has had time to read it. */
export function endLingering(response: ServerResponse): void {
  const { req } = response;
  const { socket } = req;
  // Nothing more will come.
  if (req.readableEnded || socket.readableEnded || socket.destroyed) {
    response.end();
    return;
  }
  let bytes = 0;
  const end = (): void => {
    clearTimeout(timer);
    req.off('data', count).off('end', end);
    socket.off('end', end).off('close', end);
    response.end();
  };
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > lingerBytes) end();
  };
  const timer = setTimeout(end, lingerMs);
  req.on('data', count).on('end', end).resume();
  socket.on('end', end).on('close', end);
}

/** Ends a connection after some last bytes, the same way. */
export function endSocket(socket: Duplex, bytes = ''): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket
    .once('close', () => clearTimeout(timer))
    .resume()
    .end(bytes);
}
