import { cpSync } from 'node:fs';
import { join } from 'node:path';
import type { Case } from '../case.ts';
import { answersJson, keepsUser } from '../check.ts';
import { dataFile, listedRole, userRequests } from '../data.ts';
import { measureThroughput } from '../measure.ts';
import { openDatabase } from '../peers/database.ts';
import { bareServer, peer, service } from '../subject.ts';

const users = 100_000;
const ours = 'users-service';
const bare = 'bare node:http';

/** The peers that do the same query, by the names of their programs. */
const peers = [
  ['Fastify', 'fastify', []],
  ['Fastify, logging', 'fastify', ['--log']],
  ['Hono', 'hono', []],
  ['Express', 'express', []],
  ['Koa', 'koa', []],
] as const;

export const newUsers = Array.from({ length: 100 }, (_, i) => ({
  method: 'POST' as const,
  path: '/users',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ name: `New User ${i}`, role: 'member' }),
}));

export const getUser: Case = {
  name: 'get',
  title: 'GET /users/{id} from SQLite',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const expected = openDatabase(file).getUser(7);
    const check = answersJson('/users/7', expected);
    const others = peers.map(([name, program, flags]) => {
      return { name, program: peer(program, file, ...flags), check };
    });
    return await measureThroughput(
      {
        name: this.name,
        title: this.title,
        load: { connections: 64, requests: userRequests(users) },
        contestants: [
          { name: ours, program: service(['--database', `sqlite:${file}`]), check },
          { name: bare, program: bareServer(JSON.stringify(expected)), check },
          ...others,
        ],
        bars: [
          { ours, theirs: bare, atLeast: 0.9 },
          { ours, theirs: 'Fastify', atLeast: 1 },
          { ours, theirs: 'Hono', atLeast: 1 },
        ],
      },
      context,
    );
  },
};

export const listUsers: Case = {
  name: 'list',
  title: 'GET /users: 20 of a role by name, from SQLite',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const path = `/users?role=${listedRole}&sort=-name&limit=20`;
    const check = answersJson(path, openDatabase(file).listUsers(listedRole, 20));
    const others = peers.map(([name, program, flags]) => {
      return { name, program: peer(program, file, ...flags), check };
    });
    return await measureThroughput(
      {
        name: this.name,
        title: this.title,
        load: { connections: 64, requests: [{ path }] },
        contestants: [{ name: ours, program: service(['--database', `sqlite:${file}`]), check }, ...others],
        bars: [{ ours, theirs: 'Fastify', atLeast: 1.2 }],
      },
      context,
    );
  },
};

export const createUser: Case = {
  name: 'post',
  title: 'POST /users, each on disk before its answer',
  async run(context) {
    // A file for each: they would wait for one another's lock.
    const fileFor = async (name: string) => {
      const path = join(context.folder, `${name}.db`);
      cpSync(await dataFile(context.dataFolder, users), path);
      return path;
    };
    const own = await fileFor(ours);
    const contestants = [
      { name: ours, program: service(['--database', `sqlite:${own}`]), check: keepsUser(own) },
    ];
    for (const [name, program] of peers.filter(([, , flags]) => flags.length === 0)) {
      if (name === 'Koa') continue;
      const file = await fileFor(name);
      contestants.push({ name, program: peer(program, file), check: keepsUser(file) });
    }
    return await measureThroughput(
      {
        name: this.name,
        title: this.title,
        load: { connections: 64, requests: newUsers },
        contestants,
        bars: [{ ours, theirs: 'Fastify', atLeast: 8 }],
      },
      context,
    );
  },
};
