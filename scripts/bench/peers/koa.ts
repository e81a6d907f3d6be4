import Router from '@koa/router';
import Koa from 'koa';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';

const db = openDatabase(argument());
const router = new Router();

router.get('/users/:id', (context) => {
  const found = db.getUser(Number(context.params['id']));
  if (found === undefined) context.status = 404;
  context.body = found ?? { error: 'no such user' };
});
router.get('/users', (context) => {
  context.body = db.listUsers(String(context.query['role']), Number(context.query['limit'] ?? 20));
});

const app = new Koa();
app.use(router.routes());
const server = app.listen(0, '127.0.0.1', () => announce(server));
