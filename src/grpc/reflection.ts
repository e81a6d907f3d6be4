import { readFileSync } from 'node:fs';
import type { handleBidiStreamingCall, Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import jspb from 'google-protobuf';

interface ReflectionRequest {
  fileContainingSymbol?: string;
}
interface ReflectionResponse {
  originalRequest?: ReflectionRequest;
  listServicesResponse?: { service: { name: string }[] };
}
type Handler = handleBidiStreamingCall<ReflectionRequest, ReflectionResponse>;

const descriptors = new URL('../../generated/descriptors.binpb', import.meta.url);

/** Adds reflection v1 and v1alpha, so that clients such as grpcurl can read the contract from the server. */
export function addReflection(server: Server): void {
  const reflection = new ReflectionService({
    // Use the descriptors of protoc, because those of proto-loader are wrong for map fields.
    files: { format: 'Protocol Buffer 3 EnumDescriptorProto', type: {}, fileDescriptorProtos: readFiles() },
  });
  reflection.addToServer({
    addService: (service, implementation) =>
      server.addService(service, {
        ServerReflectionInfo: packageless(implementation['ServerReflectionInfo'] as Handler),
      }),
  });
}

/** The files of a FileDescriptorSet, whose only field is `repeated FileDescriptorProto file = 1`. */
function readFiles(): Buffer[] {
  const files: Buffer[] = [];
  const reader = new jspb.BinaryReader(readFileSync(descriptors));
  while (reader.nextField()) files.push(Buffer.from(reader.readBytes()));
  return files;
}

/**
 * \@grpc/reflection 1.0.4 finds a name without a package only with a leading dot (".Users"), which no
 * client sends or understands. Every name outside "grpc." is from our contract, which has no package.
 */
function packageless(handle: Handler): Handler {
  return (call) => {
    // Registered before `handle`, so that its listener receives the name with the dot.
    call.on('data', (request: ReflectionRequest) => {
      const symbol = request.fileContainingSymbol;
      if (symbol !== undefined && !symbol.startsWith('grpc.')) request.fileContainingSymbol = `.${symbol}`;
    });
    const write = call.write.bind(call);
    call.write = (response: ReflectionResponse) => {
      for (const service of response.listServicesResponse?.service ?? []) {
        service.name = service.name.replace(/^\./, '');
      }
      const asked = response.originalRequest;
      if (asked?.fileContainingSymbol !== undefined) {
        asked.fileContainingSymbol = asked.fileContainingSymbol.replace(/^\./, '');
      }
      return write(response);
    };
    handle(call);
  };
}
