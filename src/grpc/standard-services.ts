import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import type { handleBidiStreamingCall, handleServerStreamingCall, Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import jspb from 'google-protobuf';
import { HealthImplementation } from 'grpc-health-check';

type Watch = handleServerStreamingCall<{ readonly service: string }, { readonly status: string }>;

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

type ReflectionHandler = handleBidiStreamingCall<unknown, unknown>;

/** Adds reflection v1 and v1alpha, so that clients such as grpcurl can read the contract from the server. */
export function addReflection(server: Server, streams: OpenStreams): void {
  const fileDescriptorProtos: Buffer[] = [];
  const descriptors = readFileSync(new URL('../../generated/descriptors.binpb', import.meta.url));
  // A FileDescriptorSet has one field: `repeated FileDescriptorProto file = 1`.
  const reader = new jspb.BinaryReader(descriptors);
  while (reader.nextField()) fileDescriptorProtos.push(Buffer.from(reader.readBytes()));
  // Use the descriptors of protoc, because those of proto-loader are wrong for map fields.
  const format = 'Protocol Buffer 3 EnumDescriptorProto';
  const reflection = new ReflectionService({ files: { format, type: {}, fileDescriptorProtos } });
  removeDots(reflection);
  reflection.addToServer({
    addService: (service, implementation) => {
      const reflect = implementation['ServerReflectionInfo'] as ReflectionHandler;
      const ServerReflectionInfo: ReflectionHandler = (call) => {
        // A response to another request would be an error after the end, and the client would not receive the status.
        track(streams, call, () => call.pause().end());
        const write = call.write.bind(call);
        call.write = (response: unknown) => {
          const isDrained = write(response);
          // Do not read further requests of a client that does not read its responses.
          if (!isDrained) call.pause().once('drain', () => call.resume());
          return isDrained;
        };
        reflect(call);
      };
      server.addService(service, { ServerReflectionInfo });
    },
  });
}

/**
 * In the indexes of \@grpc/reflection 1.0.4, a name without a package has a leading dot (".Users"), unlike in requests
 * of all clients. They also have the names of `Object.prototype`, for which a client would get an empty file.
 */
function removeDots(reflection: ReflectionService): void {
  for (const version of ['v1', 'v1Alpha']) {
    const indexes = Reflect.get(reflection, version);
    for (const index of ['files', 'symbols', 'services']) {
      const entries = Object.entries(indexes[index]).map(([name, value]) => [name.replace(/^\./, ''), value]);
      indexes[index] = Object.assign(Object.create(null), Object.fromEntries(entries));
    }
  }
}
