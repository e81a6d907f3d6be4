/** The ceiling: node:http and a constant answer of a given text. */
import { createServer } from 'node:http';
import { announce, argument } from './announce.ts';

const body = argument();
const length = Buffer.byteLength(body);

const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': length });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => announce(server));
