import type { handleServerStreamingCall, Server, ServerWritableStream } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';

type Watch = handleServerStreamingCall<unknown, unknown>;

/** The standard health service: `""` for the whole server and `Users`. */
export class Health {
  readonly #health = new HealthImplementation({ '': 'NOT_SERVING', Users: 'NOT_SERVING' });
  readonly #watching = new Set<ServerWritableStream<unknown, unknown>>();

  addToServer(server: Pick<Server, 'addService'>): void {
    const add: Server['addService'] = (service, implementation) => {
      const watch = implementation['watch'] as Watch;
      const tracked: Watch = (call) => {
        this.#watching.add(call);
        call.on('cancelled', () => this.#watching.delete(call));
        watch(call);
      };
      server.addService(service, { ...implementation, watch: tracked });
    };
    this.#health.addToServer({ addService: add } as Server);
  }

  setServing(serving: boolean): void {
    for (const service of ['', 'Users']) this.#health.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING');
  }

  /** Ends the watches, which would otherwise keep the server from shutting down in order. */
  endWatches(): void {
    for (const call of this.#watching) call.end();
    this.#watching.clear();
  }
}
