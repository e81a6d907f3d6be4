/** The ceiling: node:http and a constant answer of a given text. JavaScript, so that nothing is stripped at its start. */
import { createServer } from 'node:http';

const body = process.argv[2] ?? '';
const length = Buffer.byteLength(body);

const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': length });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  process.stdout.write(`${JSON.stringify({ event: 'listening', http: `http://127.0.0.1:${port}` })}\n`);
});
