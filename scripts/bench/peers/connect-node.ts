import { readFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import { create, createFileRegistry, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { announceUrl, argument } from './announce.ts';
import { openDatabase } from './database.ts';

const db = openDatabase(argument());
const descriptors = readFileSync(new URL('../../../generated/descriptors.binpb', import.meta.url));
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
const service = registry.getService('Users');
const schema = registry.getMessage('User');
const getUser = service?.method['getUser'];
if (getUser === undefined || schema === undefined) throw new Error('the contract has no Users.GetUser');

const handler = connectNodeAdapter({
  routes: (router) => {
    router.rpc(
      getUser as never,
      ((request: { id: number }) => {
        const found = db.getUser(request.id);
        if (found === undefined) throw new ConnectError('no such user', Code.NotFound);
        return create(schema, { id: found.id, name: found.name } as never);
      }) as never,
    );
  },
});
const server = createServer(handler);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (address !== null && typeof address === 'object') announceUrl('', `127.0.0.1:${address.port}`);
});
