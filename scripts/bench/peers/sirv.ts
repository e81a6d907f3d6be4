import { createServer } from 'node:http';
import sirv from 'sirv';
import { announce, argument } from './announce.ts';

const serve = sirv(argument(), { etag: true });
const server = createServer((request, response) => serve(request, response));
server.listen(0, '127.0.0.1', () => announce(server));
