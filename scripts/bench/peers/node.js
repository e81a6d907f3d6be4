/**
 * The same query with plain node:http and without features. It is JavaScript, so that it has the fastest
 * start of any program that opens node:http and node:sqlite.
 */
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';

const db = new DatabaseSync(process.argv[2], { timeout: 5_000 });
const get = db.prepare('SELECT id, name, role FROM users WHERE id = ?');

const server = createServer((request, response) => {
  const row = get.get(Number(request.url.slice('/users/'.length)));
  const { id, name, role } = row ?? {};
  const body = JSON.stringify(
    row === undefined ? { error: 'no such user' } : role === '' ? { id, name } : { id, name, role },
  );
  response.writeHead(row === undefined ? 404 : 200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  process.stdout.write(`${JSON.stringify({ event: 'listening', http: `http://127.0.0.1:${port}` })}\n`);
});
