/** NestJS on Express, its default. Decorators are called as functions, because Node.js does not support them. */
import 'reflect-metadata';
import { Controller, Get, HttpException, Module, Param, Query, Res } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request, Response } from 'express';
import { announce, argument } from './announce.ts';
import { openDatabase } from './database.ts';
import { observed, withFeatures } from './features.ts';

const db = openDatabase(argument());

class Users {
  one(id: string, response: Response) {
    const found = db.getUser(Number(id));
    if (found === undefined) throw new HttpException({ error: 'no such user' }, 404);
    if (withFeatures) response.set('etag', found.etag);
    return found.user;
  }

  list({ role, sort, limit }: Record<string, string | undefined>) {
    return db.listUsers(role, sort, Number(limit ?? 20));
  }
}

function decorate(method: keyof Users, path: string, parameters: readonly ParameterDecorator[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(Users.prototype, method) ?? {};
  Get(path)(Users.prototype, method, descriptor);
  for (const [i, parameter] of parameters.entries()) parameter(Users.prototype, method, i);
}
decorate('one', ':id', [Param('id'), Res({ passthrough: true })]);
decorate('list', '', [Query()]);
Controller('users')(Users);

class App {}
Module({ controllers: [Users] })(App);

const app = await NestFactory.create<NestExpressApplication>(App, { logger: false });
app.set('etag', false);
app.disable('x-powered-by');
if (withFeatures) {
  app.use((request: Request, response: Response, next: () => void) => {
    if (observed(request, response, () => request.route?.path)) next();
  });
}
await app.listen(0, '127.0.0.1');
announce(app.getHttpServer());
