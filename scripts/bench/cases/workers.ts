import { availableParallelism } from 'node:os';
import { freePorts } from '../../../test/kit/free-ports.ts';
import { answersJson } from '../check.ts';
import { dataFile, spreadIds } from '../data.ts';
import { openDatabase } from '../peers/database.ts';
import { serviceOver } from '../peers.ts';
import type { Case } from '../result.ts';
import { peer } from '../subject.ts';
import { contest } from '../turns.ts';

const users = 100_000;
const connections = 32;
const notes = [
  'the processes share the cores with the load: compare the CPU time of a request, not the rate',
];
const cores = 'all' as const;

/** The cost per request of more processes on the same ports. */
export const workers: Case = {
  name: 'workers',
  title: 'GET /users/{id} by several workers',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const counts = [4, 3, 2, 1].filter((count) => count <= availableParallelism());
    const contestants = counts.map((count) => ({
      ...serviceOver(file, '--workers', String(count)),
      name: `${count} worker${count === 1 ? '' : 's'}`,
      cores,
    }));
    const work = {
      name: this.name,
      title: this.title,
      load: { connections, paths: spreadIds(users, 1_000).map((id) => `/users/${id}`) },
      check: answersJson('/users/7', openDatabase(file).getUser(7)?.user),
    };
    const results = await contest(contestants, [work], context);
    return results.map((result) => ({ ...result, notes }));
  },
};

/** Compares connections that the primary of node:cluster distributes with those that the kernel distributes. */
export const sharing: Case = {
  name: 'sharing',
  title: 'two bare processes on one port',
  async run(context) {
    const body = '{"id":7,"name":"Ada"}';
    const ports = await freePorts(2);
    const contestants = ['cluster', 'reusePort'].map((mode, i) => {
      return { name: mode, program: peer('bare.js', body, mode, '2', String(ports[i])), cores };
    });
    const check = answersJson('/users/7', JSON.parse(body));
    const load = { connections, paths: ['/users/7'] };
    const works = [
      { name: 'sharing-kept', title: `${this.title}: connections that stay`, load, check },
      {
        name: 'sharing-new',
        title: `${this.title}: a connection for each request`,
        load: { ...load, headers: { connection: 'close' } },
        check,
      },
    ];
    const results = await contest(contestants, works, context);
    return results.map((result) => ({ ...result, notes }));
  },
};
