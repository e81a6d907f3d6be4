import { DatabaseSync } from 'node:sqlite';
import { answersJson } from '../check.ts';
import { dataFile, listedRole, spreadIds } from '../data.ts';
import { openDatabase } from '../peers/database.ts';
import { allPeers, bare, peerOver, serviceOver } from '../peers.ts';
import type { Case } from '../result.ts';
import { peer } from '../subject.ts';
import { type Contestant, contest, type Work } from '../turns.ts';

const users = 100_000;
const connections = 32;
const handWritten = 'node:http by hand';
const constant = 'node:http, a constant';

/** Reads of one user, compared with peers with the same features and with bare peers. */
export const getUser: Case = {
  name: 'get',
  title: 'GET /users/{id}',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const expected = openDatabase(file).getUser(7)?.user;
    const contestants: Contestant[] = [
      serviceOver(file),
      ...allPeers.flatMap((name) => peerOver(name, file, context.folder)),
      ...allPeers.flatMap((name) => peerOver(name, file, context.folder, true)),
      { name: handWritten, program: peer('node.js', file) },
      { name: constant, program: peer('bare.js', JSON.stringify(expected)) },
    ];
    const work: Work = {
      name: this.name,
      title: this.title,
      load: { connections, paths: spreadIds(users, 1_000).map((id) => `/users/${id}`) },
      check: answersJson('/users/7', expected),
      bars: [
        { theirs: 'Fastify', atLeast: 1.9 },
        { theirs: 'Hono', atLeast: 2.1 },
        { theirs: 'Express', atLeast: 2.3 },
        { theirs: 'Koa', atLeast: 2.3 },
        { theirs: 'Go', atLeast: 1.25 },
        { theirs: bare('Fastify'), atLeast: 1.15 },
        { theirs: bare('Hono'), atLeast: 1.1 },
        { theirs: handWritten, atLeast: 0.95 },
        { theirs: constant, atLeast: 0.5 },
      ],
    };
    return await contest(contestants, [work], context);
  },
};

const lists = {
  'list-up': [`/users?role=${listedRole}&sort=name&limit=20`, 'by name'],
  'list-down': [`/users?role=${listedRole}&sort=-name&limit=20`, 'by -name'],
  'list-first': ['/users?limit=20', 'the plain first page'],
} as const;

/** Lists of 20 of 400 users with ascending names. All peers order equal names as the service does. */
export const listUsers: Case = {
  name: 'list',
  title: 'GET /users: 20 of 400',
  async run(context) {
    const file = await dataFile(context.dataFolder, 400);
    const db = new DatabaseSync(file);
    db.exec(`
      UPDATE users SET name = printf('User %04d', id), role = iif(id % 4 = 0, '${listedRole}', 'member')
      `);
    db.close();
    const peers = openDatabase(file);
    const contestants = [
      serviceOver(file),
      ...allPeers.flatMap((name) => peerOver(name, file, context.folder)),
      ...(['Fastify', 'Hono', 'Go'] as const).flatMap((name) => peerOver(name, file, context.folder, true)),
    ];
    const works = Object.entries(lists).map(([name, [path, title]]): Work => {
      const query = new URLSearchParams(path.split('?')[1]);
      const expected = peers.listUsers(query.get('role') ?? undefined, query.get('sort') ?? undefined, 20);
      return {
        name,
        title: `${this.title}, ${title}`,
        load: { connections, paths: [path] },
        check: answersJson(path, JSON.parse(JSON.stringify(expected))),
        bars: [{ theirs: 'Fastify', atLeast: 1.2 }],
      };
    });
    return await contest(contestants, works, context);
  },
};
