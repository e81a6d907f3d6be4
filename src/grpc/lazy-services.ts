import type {
  Server,
  ServiceDefinition,
  UntypedHandleCall,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';

/** A method as far as a server must know it before its first call. */
export interface LazyMethod {
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
}

/** What `addService` is called on, by a package that adds its services to a server itself. */
export type ServiceCollector = Pick<Server, 'addService'>;

interface LoadedMethod {
  readonly definition: ServiceDefinition[string];
  readonly handle: UntypedHandleCall;
}

/**
 * Adds services of other packages whose code is loaded, by `load`, at the first call of any of them.
 * It has to be loaded in one go: what turns bytes into messages cannot wait for a promise.
 */
export function addLazyServices(
  server: Server,
  methods: readonly LazyMethod[],
  load: (collector: ServiceCollector) => void,
): void {
  let loaded: ReadonlyMap<string, LoadedMethod> | undefined;
  const find = (path: string): LoadedMethod => {
    loaded ??= collect(load);
    const method = loaded.get(path);
    if (method === undefined) throw new Error(`no service that was loaded has ${path}`);
    return method;
  };
  for (const method of methods) {
    const { path } = method;
    const definition = {
      ...method,
      requestDeserialize: (bytes: Buffer): unknown => find(path).definition.requestDeserialize(bytes),
      responseSerialize: (message: unknown): Buffer => find(path).definition.responseSerialize(message),
      // These two are for clients.
      requestSerialize: (message: unknown): Buffer => find(path).definition.requestSerialize(message),
      responseDeserialize: (bytes: Buffer): unknown => find(path).definition.responseDeserialize(bytes),
    };
    const handle = (...call: Parameters<UntypedHandleCall>): void => {
      Reflect.apply(find(path).handle, undefined, call);
    };
    server.addService({ call: definition }, { call: handle });
  }
}

function collect(load: (collector: ServiceCollector) => void): Map<string, LoadedMethod> {
  const methods = new Map<string, LoadedMethod>();
  load({
    addService(service: ServiceDefinition, implementation: UntypedServiceImplementation) {
      for (const [name, definition] of Object.entries(service)) {
        const handle = implementation[name] ?? implementation[definition.originalName ?? name];
        if (handle !== undefined) methods.set(definition.path, { definition, handle });
      }
    },
  });
  return methods;
}
