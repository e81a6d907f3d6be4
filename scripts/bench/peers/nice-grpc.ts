import { createServer, ServerError, Status } from 'nice-grpc';
import { UserMessage, UsersService } from '../../../src/grpc/stubs.ts';
import { announceUrl, argument } from './announce.ts';
import { openDatabase } from './database.ts';

const db = openDatabase(argument());
const server = createServer({ 'grpc.enable_channelz': 0 });
server.add(
  UsersService as never,
  {
    async getUser(request: { getId(): number }) {
      const found = db.getUser(request.getId());
      if (found === undefined) throw new ServerError(Status.NOT_FOUND, 'no such user');
      const user = new UserMessage();
      user.setId(found.id);
      user.setName(found.name);
      return user;
    },
  } as never,
);
announceUrl('', `127.0.0.1:${await server.listen('127.0.0.1:0')}`);
