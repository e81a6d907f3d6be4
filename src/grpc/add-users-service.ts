import type { Server } from '@grpc/grpc-js';
import { Access, type AuthMode } from '../domain/access.ts';
import type { Repository } from '../domain/repository.ts';
import { defaultLimits } from '../http/limits.ts';
import type { Observe } from '../telemetry/events.ts';
import { publishingObserve } from '../telemetry/metered.ts';
import { addUsersService as addToServer } from './app.ts';

export interface UsersServiceOptions {
  readonly repository: Repository;
  /** The keys that the metadata `x-api-key` may hold. Default: none. */
  readonly apiKeys?: readonly string[];
  /** Which calls need a key. Default: `none`. */
  readonly auth?: AuthMode;
  /** Calls under way at once; more are RESOURCE_EXHAUSTED. Default: 1,000. */
  readonly maxInFlight?: number;
  /** Receives every event. Default: nobody does. */
  readonly observe?: Observe;
}

/**
 * Adds `Users` to a gRPC server that exists already, beside its other services. Health, reflection,
 * limits and the end of its life stay the host's.
 */
export function addUsersService(server: Server, options: UsersServiceOptions): void {
  const { repository, apiKeys = [], auth = 'none', maxInFlight = defaultLimits.maxInFlight } = options;
  addToServer(server, {
    repository,
    access: new Access(auth, apiKeys),
    gate: { inFlight: 0, maxInFlight },
    observe: publishingObserve(options.observe),
  });
}
