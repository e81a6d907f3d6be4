import type { Access } from '../domain/access.ts';
import { notFound, parseId } from '../domain/record.ts';
import { answered, type Repository } from '../domain/repository.ts';
import type { User } from '../domain/user.ts';
import type { UnaryHandler } from './call.ts';
import { type GetUserRequest, UserMessage } from './stubs.ts';

export interface UserHandlers {
  readonly getUser: UnaryHandler<GetUserRequest, UserMessage>;
}

export function userHandlers(repository: Repository, access: Access): UserHandlers {
  return {
    getUser(message, context) {
      context.keyName = access.check('read', context.apiKey);
      const id = parseId('user', message.getId());
      return answered(repository.getUser(id, context), (user) => {
        if (user === undefined) throw notFound('user', id);
        return toMessage(user);
      });
    },
  };
}

function toMessage({ id, name }: User): UserMessage {
  const message = new UserMessage();
  message.setId(id);
  message.setName(name);
  return message;
}
