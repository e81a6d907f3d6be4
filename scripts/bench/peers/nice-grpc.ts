import { type CallContext, createServer, ServerError, type ServerMiddlewareCall, Status } from 'nice-grpc';
import { UserMessage, UsersService } from '../../../src/grpc/users.ts';
import { announceUrl, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { enter, leave, requestId, withFeatures } from './features.ts';

const db = openDatabase(argument());
let server = createServer({ 'grpc.enable_channelz': 0 });
if (withFeatures) server = server.use(observe);

async function* observe<Request, Response>(
  call: ServerMiddlewareCall<Request, Response>,
  context: CallContext,
) {
  if (!enter()) throw new ServerError(Status.RESOURCE_EXHAUSTED, 'too many requests');
  const startedAt = performance.now();
  const id = requestId(context.metadata.get('x-request-id'));
  context.header.set('x-request-id', id);
  const { path } = call.method;
  let status = 0;
  try {
    return yield* call.next(call.request, context);
  } catch (caught) {
    status = caught instanceof ServerError ? caught.code : Status.UNKNOWN;
    throw caught;
  } finally {
    leave({ id, method: 'POST', path, route: path, status, ms: performance.now() - startedAt });
  }
}

server.add(
  UsersService as never,
  {
    async getUser(request: { getId(): number }) {
      const found = db.getUser(request.getId());
      if (found === undefined) throw new ServerError(Status.NOT_FOUND, 'no such user');
      const user = new UserMessage();
      user.setId(found.user.id);
      user.setName(found.user.name);
      return user;
    },
  } as never,
);
announceUrl('', `127.0.0.1:${await server.listen('127.0.0.1:0')}`);
