import type { Access } from '../domain/access.ts';
import { notFound, parseId } from '../domain/record.ts';
import type { Repository } from '../domain/repository.ts';
import type { UnaryHandler } from './call.ts';
import { type GetUserRequest, UserMessage } from './stubs.ts';

export interface UserHandlers {
  readonly getUser: UnaryHandler<GetUserRequest, UserMessage>;
}

export function userHandlers(repository: Repository, access: Access): UserHandlers {
  return {
    async getUser(message, context) {
      context.keyName = access.check('read', context.apiKey);
      const id = parseId('user', message.getId());
      const user = await repository.getUser(id, context);
      if (user === undefined) throw notFound('user', id);
      const response = new UserMessage();
      response.setId(user.id);
      response.setName(user.name);
      return response;
    },
  };
}
