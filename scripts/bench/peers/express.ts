import express from 'express';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';

const db = openDatabase(argument());
const app = express();

app.get('/users/:id', (request, response) => {
  const found = db.getUser(Number(request.params.id));
  if (found === undefined) response.status(404).json({ error: 'no such user' });
  else response.json(found);
});
app.get('/users', (request, response) => {
  response.json(db.listUsers(String(request.query['role']), Number(request.query['limit'] ?? 20)));
});
app.post('/users', express.json(), (request, response) => {
  const created = db.createUser(request.body.name, request.body.role);
  response.status(201).location(`/users/${created.id}`).json(created);
});

const server = app.listen(0, '127.0.0.1', () => announce(server));
