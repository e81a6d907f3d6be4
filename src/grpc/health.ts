import { createRequire } from 'node:module';
import type { handleServerStreamingCall, Server, ServerWritableStream } from '@grpc/grpc-js';
import type { HealthImplementation } from 'grpc-health-check';
import { addLazyServices, type ServiceCollector } from './lazy-services.ts';

type Watch = handleServerStreamingCall<unknown, unknown>;

const services = ['', 'Users'] as const;
const methods = [
  { path: '/grpc.health.v1.Health/Check', requestStream: false, responseStream: false },
  { path: '/grpc.health.v1.Health/Watch', requestStream: false, responseStream: true },
  { path: '/grpc.health.v1.Health/List', requestStream: false, responseStream: false },
];

/** The standard health service: `""` for the whole server and `Users`. */
export class Health {
  readonly #watching = new Set<ServerWritableStream<unknown, unknown>>();
  #serving = false;
  #health: HealthImplementation | undefined;

  addToServer(server: Server): void {
    addLazyServices(server, methods, (collector) => {
      this.#health = load();
      this.setServing(this.#serving);
      this.#health.addToServer(this.#tracked(collector));
    });
  }

  setServing(serving: boolean): void {
    this.#serving = serving;
    for (const service of services) this.#health?.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING');
  }

  /** Ends the watches, which would otherwise keep the server from shutting down in order. */
  endWatches(): void {
    for (const call of this.#watching) call.end();
    this.#watching.clear();
  }

  #tracked(collector: ServiceCollector): Server {
    const addService: Server['addService'] = (service, implementation) => {
      const watch = implementation['watch'] as Watch;
      const tracked: Watch = (call) => {
        this.#watching.add(call);
        call.on('cancelled', () => this.#watching.delete(call));
        watch(call);
      };
      collector.addService(service, { ...implementation, watch: tracked });
    };
    // The package calls nothing else of the server.
    return { addService } as Server;
  }
}

function load(): HealthImplementation {
  const require = createRequire(import.meta.url);
  const health: typeof import('grpc-health-check') = require('grpc-health-check');
  return new health.HealthImplementation();
}
