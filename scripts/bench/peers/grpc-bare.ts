/** The upper limit: grpc-js with a constant response. */
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { UserMessage, UsersService } from '../../../src/grpc/users.ts';
import { announceUrl } from './announce.ts';

const user = new UserMessage();
user.setId(1);
user.setName(process.argv[2] ?? '');

const server = new Server({ 'grpc.enable_channelz': 0 });
server.addService(UsersService, {
  getUser: (_call: unknown, callback: (error: null, value: typeof user) => void) => callback(null, user),
});
server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  announceUrl('', `127.0.0.1:${port}`);
});
