// The only import of the generated code. Its CommonJS assigns all exports in a loop, so only the default import
// contains the messages.
import usersPb from '../../generated/users_pb.js';

export { UsersService } from '../../generated/users_grpc_pb.js';
export const { GetUserRequest, User: UserMessage } = usersPb;
export type GetUserRequest = usersPb.GetUserRequest;
export type UserMessage = usersPb.User;
