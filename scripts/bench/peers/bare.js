/** The upper limit: node:http with a constant response, also to a POST after its body is parsed. */
import cluster from 'node:cluster';
import { createServer } from 'node:http';

const [, , body = '', mode = 'single', processes = '1', port = '0'] = process.argv;
const head = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) };

const server = createServer((request, response) => {
  if (request.method !== 'POST') {
    response.writeHead(200, head).end(body);
    return;
  }
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (chunk) => {
    text += chunk;
  });
  request.on('end', () => {
    JSON.parse(text);
    response.writeHead(201, head).end(body);
  });
});

// As long as the service does. By default, connections would be closed while their memory is measured.
server.keepAliveTimeout = 72_000;

// Several processes share a port. The primary of node:cluster or the kernel (reusePort) distributes
// connections.
if (mode !== 'single' && cluster.isPrimary) {
  let listening = 0;
  for (let i = 0; i < Number(processes); i += 1) {
    cluster.fork().once('message', () => {
      listening += 1;
      if (listening === Number(processes)) announce();
    });
  }
  process.on('SIGTERM', () => process.exit());
} else {
  const options = { port: Number(port), host: '127.0.0.1', reusePort: mode === 'reusePort' };
  server.listen(options, () => (process.send === undefined ? announce() : process.send('listening')));
}

function announce() {
  const at = mode === 'single' ? server.address().port : port;
  process.stdout.write(`${JSON.stringify({ event: 'listening', http: `http://127.0.0.1:${at}` })}\n`);
}
