import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { announceUrl, argument } from './announce.ts';
import { openDatabase } from './database.ts';

const db = openDatabase(argument());
const app = new Hono();

app.get('/users/:id', (c) => {
  const found = db.getUser(Number(c.req.param('id')));
  return found === undefined ? c.json({ error: 'no such user' }, 404) : c.json(found);
});
app.get('/users', (c) => {
  return c.json(db.listUsers(c.req.query('role') ?? '', Number(c.req.query('limit') ?? 20)));
});
app.post('/users', async (c) => {
  const { name, role } = await c.req.json();
  const created = db.createUser(name, role);
  return c.json(created, 201, { location: `/users/${created.id}` });
});

serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  announceUrl(`http://127.0.0.1:${port}`);
});
