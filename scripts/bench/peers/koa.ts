import Router from '@koa/router';
import Koa from 'koa';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { observed, withFeatures } from './features.ts';

const db = openDatabase(argument());
const router = new Router();

router.get('/users/:id', (context) => {
  const found = db.getUser(Number(context.params['id']));
  if (found === undefined) {
    context.status = 404;
    context.body = { error: 'no such user' };
    return;
  }
  context.body = found.user;
  if (withFeatures) {
    context.set('etag', found.etag);
    if (context.fresh) context.status = 304;
  }
});
router.get('/users', (context) => {
  const { role, sort, limit } = context.query as Record<string, string | undefined>;
  context.body = db.listUsers(role, sort, Number(limit ?? 20));
});

const app = new Koa();
if (withFeatures) {
  app.use((context, next) => {
    if (observed(context.req, context.res, () => context['_matchedRoute'])) return next();
    context.respond = false;
    return undefined;
  });
}
app.use(router.routes());
const server = app.listen(0, '127.0.0.1', () => announce(server));
