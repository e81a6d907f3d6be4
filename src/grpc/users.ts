// The generated code is CommonJS that assigns all exports in a loop, so only the default import contains the messages.
import usersPb from '../../generated/users_pb.js';
import { notFound } from '../domain/errors.ts';
import { parseId } from '../domain/record.ts';
import { mapAnswer, type Repository } from '../domain/repository.ts';
import { type UnaryOptions, unary } from './call.ts';

export { UsersService } from '../../generated/users_grpc_pb.js';
export const { GetUserRequest, User: UserMessage } = usersPb;
export type GetUserRequest = usersPb.GetUserRequest;
export type UserMessage = usersPb.User;

export function userHandlers(repository: Repository, options: UnaryOptions) {
  return {
    getUser: unary('read', options, (message: GetUserRequest, call) => {
      const id = parseId('user', message.getId());
      return mapAnswer(repository.users.get(id, call), (user) => {
        if (user === undefined) throw notFound('user', id);
        const reply = new UserMessage();
        reply.setId(id);
        reply.setName(user.name);
        return reply;
      });
    }),
  };
}
