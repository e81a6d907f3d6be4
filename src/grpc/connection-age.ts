import type { Socket } from 'node:net';
import type { ConnectionInjector, Server, ServerCredentials } from '@grpc/grpc-js';

const groupsPerAge = 20;
// Ages are random within this share below the maximum, so that clients do not all reconnect at once.
const spread = 0.1;

/**
 * Accepts connections in groups, and asks the clients of a group to close them before the maximum age. grpc-js has this
 * limit too, but starts a timer of a random duration for each connection. Node.js keeps a list for each duration
 * until its end, so a client with a new connection for each call would fill the memory.
 */
export function agingConnections(
  server: Server,
  maxAgeMs: number,
  graceMs: number,
  credentials: ServerCredentials,
) {
  const groupMs = Math.ceil(maxAgeMs / groupsPerAge);
  const groups = new Map<string, { injector: ConnectionInjector; timer: NodeJS.Timeout }>();
  let certificates = 0;

  const open = (key: string, closesAt: number) => {
    const injector = server.createConnectionInjector(credentials);
    const close = (): void => {
      groups.delete(key);
      injector.drain(graceMs);
      injector.destroy();
    };
    const group = { injector, timer: setTimeout(close, closesAt - performance.now()).unref() };
    groups.set(key, group);
    return group;
  };
  return {
    accept(socket: Socket): void {
      const ageMs = maxAgeMs * (1 - spread * Math.random());
      const number = Math.floor((performance.now() + ageMs) / groupMs);
      const key = `${certificates} ${number}`;
      const group = groups.get(key) ?? open(key, number * groupMs);
      group.injector.injectConnection(socket);
    },
    /** Sets the credentials for new connections. */
    setCredentials(next: ServerCredentials): void {
      credentials = next;
      certificates += 1;
    },
    /** Stops the timers; the server closes the connections. */
    close(): void {
      for (const { timer } of groups.values()) clearTimeout(timer);
    },
  };
}
