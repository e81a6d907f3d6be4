// GENERATED CODE -- DO NOT EDIT!

// package: 
// file: users.proto

import * as users_pb from "./users_pb";
import * as grpc from "@grpc/grpc-js";

interface IUsersService extends grpc.ServiceDefinition<grpc.UntypedServiceImplementation> {
  getUser: grpc.MethodDefinition<users_pb.GetUserRequest, users_pb.User>;
}

export const UsersService: IUsersService;

export interface IUsersServer extends grpc.UntypedServiceImplementation {
  getUser: grpc.handleUnaryCall<users_pb.GetUserRequest, users_pb.User>;
}

export class UsersClient extends grpc.Client {
  constructor(address: string, credentials: grpc.ChannelCredentials, options?: object);
  getUser(argument: users_pb.GetUserRequest, callback: grpc.requestCallback<users_pb.User>): grpc.ClientUnaryCall;
  getUser(argument: users_pb.GetUserRequest, metadataOrOptions: grpc.Metadata | grpc.CallOptions | null, callback: grpc.requestCallback<users_pb.User>): grpc.ClientUnaryCall;
  getUser(argument: users_pb.GetUserRequest, metadata: grpc.Metadata | null, options: grpc.CallOptions | null, callback: grpc.requestCallback<users_pb.User>): grpc.ClientUnaryCall;
}
