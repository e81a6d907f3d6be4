// GENERATED CODE -- DO NOT EDIT!

// Original file comments:
// The gRPC API of the users service: the same users as GET /users/{id}.
//
// There is no package on purpose: the method's path is /Users/GetUser.
'use strict';
var grpc = require('@grpc/grpc-js');
var users_pb = require('./users_pb.js');

function serialize_GetUserRequest(arg) {
  if (!(arg instanceof users_pb.GetUserRequest)) {
    throw new Error('Expected argument of type GetUserRequest');
  }
  return Buffer.from(arg.serializeBinary());
}

function deserialize_GetUserRequest(buffer_arg) {
  return users_pb.GetUserRequest.deserializeBinary(new Uint8Array(buffer_arg));
}

function serialize_User(arg) {
  if (!(arg instanceof users_pb.User)) {
    throw new Error('Expected argument of type User');
  }
  return Buffer.from(arg.serializeBinary());
}

function deserialize_User(buffer_arg) {
  return users_pb.User.deserializeBinary(new Uint8Array(buffer_arg));
}


// Looks users up.
var UsersService = exports.UsersService = {
  // Returns the user with the requested id.
//
// INVALID_ARGUMENT: the id is 0 or negative; an id left out is read as 0.
// NOT_FOUND: there is no user with this id.
getUser: {
    path: '/Users/GetUser',
    requestStream: false,
    responseStream: false,
    requestType: users_pb.GetUserRequest,
    responseType: users_pb.User,
    requestSerialize: serialize_GetUserRequest,
    requestDeserialize: deserialize_GetUserRequest,
    responseSerialize: serialize_User,
    responseDeserialize: deserialize_User,
  },
};

exports.UsersClient = grpc.makeGenericClientConstructor(UsersService, 'Users');
