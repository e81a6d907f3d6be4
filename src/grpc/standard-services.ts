import { readFileSync } from 'node:fs';
import type { handleBidiStreamingCall, handleServerStreamingCall, Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import jspb from 'google-protobuf';
import { HealthImplementation } from 'grpc-health-check';

type Watch = handleServerStreamingCall<{ readonly service: string }, { readonly status: string }>;

const services = ['', 'Users'];

/** Adds the health service, with a status for `""`, the whole server, and one for `Users`. */
export function addHealth(server: Server) {
  const health = new HealthImplementation({ '': 'NOT_SERVING', Users: 'NOT_SERVING' });
  const watching = new Set<Parameters<Watch>[0]>();
  const addService: Server['addService'] = (service, implementation) => {
    const watch: Watch = (call) => {
      watching.add(call);
      call.on('cancelled', () => watching.delete(call));
      // The package would keep each name that was ever watched. The service never learns an unknown name later.
      if (services.includes(call.request.service)) (implementation['watch'] as Watch)(call);
      else call.write({ status: 'SERVICE_UNKNOWN' });
    };
    server.addService(service, { ...implementation, watch });
  };
  // The package calls no other method of the server.
  health.addToServer({ addService } as Server);
  return {
    setServing(serving: boolean): void {
      for (const service of services) health.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING');
    },
    /** Ends the watches, which would otherwise keep the server from shutting down. */
    endWatches(): void {
      for (const call of watching) call.end();
    },
  };
}

interface ReflectionRequest {
  fileContainingSymbol?: string;
}
interface ReflectionResponse {
  originalRequest?: ReflectionRequest;
  listServicesResponse?: { service: { name: string }[] };
}
type Reflect = handleBidiStreamingCall<ReflectionRequest, ReflectionResponse>;

/** Adds reflection v1 and v1alpha, so that clients such as grpcurl can read the contract from the server. */
export function addReflection(server: Server) {
  const open = new Set<Parameters<Reflect>[0]>();
  const fileDescriptorProtos: Buffer[] = [];
  const descriptors = readFileSync(new URL('../../generated/descriptors.binpb', import.meta.url));
  // A FileDescriptorSet has one field: `repeated FileDescriptorProto file = 1`.
  const reader = new jspb.BinaryReader(descriptors);
  while (reader.nextField()) fileDescriptorProtos.push(Buffer.from(reader.readBytes()));
  // Use the descriptors of protoc, because those of proto-loader are wrong for map fields.
  const format = 'Protocol Buffer 3 EnumDescriptorProto';
  new ReflectionService({ files: { format, type: {}, fileDescriptorProtos } }).addToServer({
    addService: (service, implementation) => {
      const reflect = packageless(implementation['ServerReflectionInfo'] as Reflect);
      const ServerReflectionInfo: Reflect = (call) => {
        open.add(call);
        call.on('cancelled', () => open.delete(call));
        reflect(call);
      };
      server.addService(service, { ServerReflectionInfo });
    },
  });
  return {
    /** Ends the streams, which would otherwise keep the server from shutting down. */
    endStreams(): void {
      // A response to another request would be an error after the end, and the client would not receive the status.
      for (const call of open) call.pause().end();
    },
  };
}

/**
 * \@grpc/reflection 1.0.4 knows a name without a package only with a leading dot (".Users"), unlike all clients. Our
 * contract has no package: its names are those outside "grpc.".
 */
function packageless(reflect: Reflect): Reflect {
  return (call) => {
    // Registered before `reflect`, so that its listener receives the name with the dot.
    call.on('data', (request: ReflectionRequest) => {
      const symbol = request.fileContainingSymbol;
      if (symbol !== undefined && !symbol.startsWith('grpc.')) request.fileContainingSymbol = `.${symbol}`;
    });
    const write = call.write.bind(call);
    call.write = (response: ReflectionResponse) => {
      for (const service of response.listServicesResponse?.service ?? []) {
        service.name = service.name.replace(/^\./, '');
      }
      const { originalRequest: asked = {} } = response;
      if (asked.fileContainingSymbol)
        asked.fileContainingSymbol = asked.fileContainingSymbol.replace(/^\./, '');
      const isDrained = write(response);
      // Do not read further requests of a client that does not read its responses.
      if (!isDrained) call.pause().once('drain', () => call.resume());
      return isDrained;
    };
    reflect(call);
  };
}
