// Compiled by `npm run check`, but never run: code of an embedder, with lines that must not compile.
import { Server } from '@grpc/grpc-js';
import {
  addUsersService,
  createRequestListener,
  createService,
  DomainError,
  type MetricsSnapshot,
  type Observe,
  openStore,
  type RecordKind,
  type Records,
  type Repository,
  type Store,
} from '../../src/index.ts';

/** A server of another version of grpc-js: private members make classes of the same name incompatible. */
class OtherServer {
  readonly #handlers = new Map<string, unknown>();
  addService(
    service: Record<string, { path: string }>,
    implementation: Record<string, (call: OtherServer) => void>,
  ): void {
    for (const [name, { path }] of Object.entries(service)) this.#handlers.set(path, implementation[name]);
  }
}

/** A part of a store that copies its rows. */
export class OwnStore implements Pick<Store, 'exportRows' | 'importRows'> {
  async exportRows<Kind extends RecordKind>(_kind: Kind): Promise<readonly Records[Kind][]> {
    return [];
  }
  async importRows<Kind extends RecordKind>(_kind: Kind, rows: readonly Records[Kind][]): Promise<number> {
    return rows.length;
  }
}

export async function use(repository: Repository): Promise<void> {
  await using service = createService({ database: 'memory:', port: 0, grpcPort: false });
  const { http } = await service.listen();
  http.startsWith('http');
  const counters: MetricsSnapshot = service.counters();
  Object.values(counters);
  createRequestListener({ repository, basePath: '/api', auth: 'writes', apiKeys: ['k'] });
  addUsersService(new Server(), { repository });
  addUsersService(new OtherServer(), { repository });
  // @ts-expect-error: not a server
  addUsersService({}, { repository });
  await using stores = new AsyncDisposableStack();
  stores.adopt(await openStore('memory:'), (store) => store.close());
  const observe: Observe = (event) => {
    if (event.type === 'request') event.durationMs.toFixed();
    // @ts-expect-error: only requests have a duration
    else event.durationMs;
  };
  observe({ type: 'closed' });

  // @ts-expect-error: a listener needs a repository
  createRequestListener({});
  // @ts-expect-error: not a mode
  createService({ auth: 'sometimes' });
  // @ts-expect-error: a misspelled option
  createService({ prot: 3000 });
  // @ts-expect-error: ports are numbers
  createService({ port: '3000' });
  // @ts-expect-error: only `false` disables gRPC
  createService({ grpcPort: 'off' });
  // @ts-expect-error: a repository must have all methods
  createService({ repository: { ping: async () => undefined } });
  // @ts-expect-error: kinds are a closed list
  new DomainError('teapot', 'short and stout');
  // @ts-expect-error: a user is read-only
  (await repository.users.get(1)).name = 'Eve';
}
