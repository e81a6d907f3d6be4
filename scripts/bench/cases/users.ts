import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { slowSyncs } from '../../harness/slow-syncs.ts';
import type { Case, ServerContestant } from '../case.ts';
import { answersJson, keepsUser } from '../check.ts';
import { commandExists } from '../cores.ts';
import { dataFile, listedRole, userRequests } from '../data.ts';
import { measureThroughput } from '../measure.ts';
import { openDatabase } from '../peers/database.ts';
import { bareServer, behind, type Program, peer, service } from '../subject.ts';

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

/** POST with each answer behind a sync of the disk, which takes so much longer than here, in ms. */
function create(name: string, title: string, syncMs: number): Case {
  return {
    name,
    title,
    async run(context) {
      const load = { connections: 64, requests: newUsers };
      const what = { name, title, load, bars: [{ ours, theirs: 'Fastify', atLeast: 8 }] };
      if (syncMs > 0 && !commandExists('strace')) {
        return await measureThroughput(
          { ...what, contestants: [], bars: [], notes: ['not run: needs strace'] },
          context,
        );
      }
      const contestants: ServerContestant[] = [];
      // A file for each: they would wait for one another's lock.
      const add = async (who: string, programOn: (file: string) => Program): Promise<void> => {
        const file = join(context.folder, `${who}-${syncMs}.db`);
        cpSync(await dataFile(context.dataFolder, users), file);
        const program = behind(slowSyncs(syncMs), programOn(file));
        contestants.push({ name: who, program, check: keepsUser(file) });
      };
      await add(ours, (file) => service(['--database', `sqlite:${file}`]));
      for (const [who, program] of peers.filter(([, , flags]) => flags.length === 0)) {
        if (who !== 'Koa') await add(who, (file) => peer(program, file));
      }
      return await measureThroughput({ ...what, contestants }, context);
    },
  };
}

export const createUser = create('post', 'POST /users, each on disk before its answer', 0);
export const createUserSlowly = create(
  'post-2ms',
  'POST /users, where a sync of the disk takes 2 ms longer',
  2,
);
