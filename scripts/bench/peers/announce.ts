import type { Server } from 'node:net';

/** The arguments of the peer, which needs at least one. */
export function argument(index = 0): string {
  const value = process.argv[index + 2];
  if (value === undefined) throw new Error(`${process.argv[1]} needs ${index + 1} arguments`);
  return value;
}

/** Prints the address of a peer in the format of the service. */
export function announce(server: Pick<Server, 'address'>): void {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  announceUrl(`http://127.0.0.1:${address.port}`);
}

export function announceUrl(http: string, grpc = ''): void {
  process.stdout.write(`${JSON.stringify({ event: 'listening', http, grpc })}\n`);
}
