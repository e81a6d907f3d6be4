import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import type { handleBidiStreamingCall, handleServerStreamingCall, Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import jspb from 'google-protobuf';
import { HealthImplementation } from 'grpc-health-check';

type HealthRequest = { readonly service: string };
type Watch = handleServerStreamingCall<HealthRequest, { readonly status: string }>;

const services = ['', 'Users'];

/** Functions that end the open streams, which would otherwise keep the server from shutting down. */
export type OpenStreams = Set<() => void>;

function track(streams: OpenStreams, call: EventEmitter, end: () => void): void {
  streams.add(end);
  call.on('cancelled', () => streams.delete(end));
}

/** Adds the health service, for `""`, the whole server, and `Users`. Returns a function that sets their status. */
export function addHealth(server: Server, streams: OpenStreams) {
  const health = new HealthImplementation({ '': 'NOT_SERVING', Users: 'NOT_SERVING' });
  const addService: Server['addService'] = (service, implementation) => {
    const watch: Watch = (call) => {
      track(streams, call, () => call.end());
      // The package would keep each name that was ever watched. The service never learns an unknown name later.
      if (services.includes(call.request.service)) (implementation['watch'] as Watch)(call);
      else call.write({ status: 'SERVICE_UNKNOWN' });
    };
    server.addService(service, { ...implementation, watch });
  };
  // The package calls no other method of the server.
  health.addToServer({ addService } as Server);
  return (serving: boolean): void => {
    for (const service of services) health.setStatus(service, serving ? 'SERVING' : 'NOT_SERVING');
  };
}

type ReflectionRequest = { fileContainingSymbol?: string };
interface ReflectionResponse {
  originalRequest?: ReflectionRequest;
  listServicesResponse?: { service: { name: string }[] };
}
type Reflect = handleBidiStreamingCall<ReflectionRequest, ReflectionResponse>;

/** Adds reflection v1 and v1alpha, so that clients such as grpcurl can read the contract from the server. */
export function addReflection(server: Server, streams: OpenStreams): void {
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
        // A response to another request would be an error after the end, and the client would not receive the status.
        track(streams, call, () => call.pause().end());
        reflect(call);
      };
      server.addService(service, { ServerReflectionInfo });
    },
  });
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
      for (const service of response.listServicesResponse?.service ?? [])
        service.name = service.name.replace(/^\./, '');
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
