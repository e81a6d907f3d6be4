import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

const chunk = 'x'.repeat(65_536);
const chunks = 1_024;

/** Sends a body of 64 MiB until its client closes the connection, and resolves to the MiB that it has sent. */
export async function sendLongBody(response: ServerResponse): Promise<number> {
  const closed = once(response, 'close').then(() => true);
  for (let sent = 0; sent < chunks; sent += 1) {
    if (response.write(chunk)) continue;
    const isClosed = await Promise.race([closed, once(response, 'drain').then(() => false)]);
    if (isClosed) return sent / 16;
  }
  response.end();
  return chunks / 16;
}
