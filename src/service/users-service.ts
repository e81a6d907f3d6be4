import type { Server } from '@grpc/grpc-js';
import { options as optionTable, readOptions } from '../config.ts';
import { Access } from '../domain/access.ts';
import { checkRange } from '../domain/range.ts';
import { checkRepository } from '../domain/repository.ts';
import { UsersService, userHandlers } from '../grpc/users.ts';
import type { RequestListenerOptions } from '../rest/app.ts';
import { fanOut } from '../telemetry/events.ts';

export type { GrpcLimits } from '../grpc/app.ts';

/** A `Server` of any version of grpc-js: its private members make the types of two versions incompatible. */
interface AnyServer {
  addService(service: never, implementation: never): void;
}

export interface UsersServiceOptions
  extends Pick<RequestListenerOptions, 'repository' | 'apiKeys' | 'auth' | 'observe'> {
  /** Maximum number of concurrent calls; more fail with RESOURCE_EXHAUSTED. Default: 10,000. */
  readonly maxInFlight?: number;
}

const names: readonly string[] = ['repository', 'apiKeys', 'auth', 'maxInFlight', 'observe'];

/**
 * Adds `Users` to an existing gRPC server, beside its other services. The owner of the server remains responsible
 * for health, reflection, limits and shutdown. Throws when an option is wrong.
 */
export function addUsersService(server: AnyServer, options: UsersServiceOptions): void {
  checkRepository(options?.repository);
  for (const name in options) if (!names.includes(name)) throw new TypeError(`${name} is not an option`);
  const { default: preset, range } = optionTable['max-in-flight'];
  const { repository, auth, apiKeys, maxInFlight = preset, observe } = options;
  checkRange('maxInFlight', maxInFlight, range);
  const checked = readOptions({ auth, apiKeys });
  const handlers = userHandlers(repository, {
    access: new Access(checked.auth, checked.apiKeys),
    observe: fanOut(observe),
    gate: { inFlight: 0, maxInFlight },
    // Interceptors, as of our own server, cannot be added to a server that exists.
    reports: true,
  });
  (server as Server).addService(UsersService, handlers);
}
