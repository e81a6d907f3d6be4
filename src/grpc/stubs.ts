// The one door to the generated code. Its CommonJS assigns all exports in a loop, so the messages can
// only be had through the default import.
import usersPb from '../../generated/users_pb.js';

export { UsersService } from '../../generated/users_grpc_pb.js';
export const { GetUserRequest, User: UserMessage } = usersPb;
export type GetUserRequest = usersPb.GetUserRequest;
export type UserMessage = usersPb.User;
