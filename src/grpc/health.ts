import type { handleServerStreamingCall, Server, ServerWritableStream } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';

type Watch = handleServerStreamingCall<unknown, unknown>;

const services = ['', 'Users'] as const;

/** The standard health service: `""` for the whole server and `Users`. */
export class Health {
  readonly #health = new HealthImplementation({ '': 'NOT_SERVING', Users: 'NOT_SERVING' });
  readonly #watching = new Set<ServerWritableStream<unknown, unknown>>();

  constructor(server: Server) {
    const addService: Server['addService'] = (service, implementation) => {
      const watch = implementation['watch'] as Watch;
      const tracked: Watch = (call) => {
        this.#watching.add(call);
        call.on('cancelled', () => this.#watching.delete(call));
        watch(call);
      };
      server.addService(service, { ...implementation, watch: tracked });
    };
    // The package calls no other method of the server.
    this.#health.addToServer({ addService } as Server);
  }

  setServing(serving: boolean): void {
    for (const service of services) this.#health.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING');
  }

  /** Ends the watches, which would otherwise keep the server from shutting down. */
  endWatches(): void {
    for (const call of this.#watching) call.end();
    this.#watching.clear();
  }
}
