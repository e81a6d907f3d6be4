import express from 'express';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { observed, withFeatures } from './features.ts';

const db = openDatabase(argument());
const app = express();
// The version is the tag, as in the service, instead of a hash of the body.
app.set('etag', false);
app.disable('x-powered-by');

if (withFeatures) {
  app.use((request, response, next) => {
    if (observed(request, response, () => request.route?.path)) next();
  });
}

app.get('/users/:id', (request, response) => {
  const found = db.getUser(Number(request.params.id));
  if (found === undefined) {
    response.status(404).json({ error: 'no such user' });
    return;
  }
  // With a tag, Express handles If-None-Match.
  if (withFeatures) response.set('etag', found.etag);
  response.json(found.user);
});
app.get('/users', (request, response) => {
  const { role, sort, limit } = request.query as Record<string, string | undefined>;
  response.json(db.listUsers(role, sort, Number(limit ?? 20)));
});
app.post('/users', express.json(), (request, response) => {
  const created = db.createUser(request.body.name, request.body.role);
  response.status(201).location(`/users/${created.id}`).json(created);
});

const server = app.listen(0, '127.0.0.1', () => announce(server));
