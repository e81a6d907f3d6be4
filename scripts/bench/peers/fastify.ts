/** Fastify as in its guide, with schemas, which make its validation and serialisation fastest. */
import { fastify } from 'fastify';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { enter, leave, requestId, withFeatures } from './features.ts';

const db = openDatabase(argument());
const app = fastify(
  withFeatures ? { genReqId: (request) => requestId(request.headers['x-request-id']) } : {},
);

if (withFeatures) {
  app.addHook('onRequest', (request, reply, done) => {
    if (!enter()) {
      reply.code(503).send({ error: 'too many requests' });
      return;
    }
    reply.header('x-request-id', request.id);
    done();
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { id, method, url: path, routeOptions } = request;
    const route = routeOptions.url ?? 'unmatched';
    leave({ id, method, path, route, status: reply.statusCode, ms: reply.elapsedTime });
    done();
  });
}

const user = {
  type: 'object',
  properties: { id: { type: 'integer' }, name: { type: 'string' }, role: { type: 'string' } },
};
const idParams = { type: 'object', properties: { id: { type: 'integer', minimum: 1 } } };
const listQuery = {
  type: 'object',
  properties: {
    role: { type: 'string' },
    sort: { type: 'string', enum: ['name', '-name'] },
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
  },
};
const draft = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 1, maxLength: 200 }, role: { type: 'string' } },
  required: ['name', 'role'],
  additionalProperties: false,
};

app.get<{ Params: { id: number } }>(
  '/users/:id',
  { schema: { params: idParams, response: { 200: user } } },
  (request, reply) => {
    const found = db.getUser(request.params.id);
    if (found === undefined) {
      reply.code(404).send({ error: 'no such user' });
      return;
    }
    if (withFeatures) {
      reply.header('etag', found.etag);
      if (request.headers['if-none-match'] === found.etag) {
        reply.code(304).send();
        return;
      }
    }
    reply.send(found.user);
  },
);
app.get<{ Querystring: { role?: string; sort?: string; limit: number } }>(
  '/users',
  { schema: { querystring: listQuery, response: { 200: { type: 'array', items: user } } } },
  (request, reply) => {
    const { role, sort, limit } = request.query;
    reply.send(db.listUsers(role, sort, limit));
  },
);
app.post<{ Body: { name: string; role: string } }>(
  '/users',
  { schema: { body: draft, response: { 201: user } } },
  (request, reply) => {
    const created = db.createUser(request.body.name, request.body.role);
    reply.code(201).header('location', `/users/${created.id}`).send(created);
  },
);

await app.listen({ port: 0, host: '127.0.0.1' });
announce(app.server);
