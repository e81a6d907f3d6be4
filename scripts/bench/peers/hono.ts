import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { routePath } from 'hono/route';
import { announceUrl, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { enter, leave, requestId, withFeatures } from './features.ts';

const db = openDatabase(argument());
const app = new Hono();

if (withFeatures) {
  app.use(async (c, next) => {
    if (!enter()) return c.json({ error: 'too many requests' }, 503);
    const startedAt = performance.now();
    const id = requestId(c.req.header('x-request-id'));
    // Set headers before the response is created, as Hono's middleware does. Later headers would create it
    // again.
    c.header('x-request-id', id);
    await next();
    const { method, path } = c.req;
    const ms = performance.now() - startedAt;
    leave({ id, method, path, route: routePath(c, -1), status: c.res.status, ms });
    return undefined;
  });
}

app.get('/users/:id', (c) => {
  const found = db.getUser(Number(c.req.param('id')));
  if (found === undefined) return c.json({ error: 'no such user' }, 404);
  if (!withFeatures) return c.json(found.user);
  if (c.req.header('if-none-match') === found.etag) return c.body(null, 304, { etag: found.etag });
  return c.json(found.user, 200, { etag: found.etag });
});
app.get('/users', (c) => {
  const { role, sort, limit } = c.req.query();
  return c.json(db.listUsers(role, sort, Number(limit ?? 20)));
});
app.post('/users', async (c) => {
  const { name, role } = await c.req.json();
  const created = db.createUser(name, role);
  return c.json(created, 201, { location: `/users/${created.id}` });
});

serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  announceUrl(`http://127.0.0.1:${port}`);
});
