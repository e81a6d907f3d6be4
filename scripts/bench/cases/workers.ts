import type { Case } from '../case.ts';
import { answersJson } from '../check.ts';
import { dataFile, userRequests } from '../data.ts';
import { measureThroughput } from '../measure.ts';
import { openDatabase } from '../peers/database.ts';
import { service } from '../subject.ts';

const users = 100_000;

/** What a second process on the same ports adds, and what it costs each request. */
export const oneAndTwoWorkers: Case = {
  name: 'workers',
  title: 'GET /users/{id} through one worker and two',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const check = answersJson('/users/7', openDatabase(file).getUser(7));
    const contestants = ['1', '2'].map((workers) => ({
      name: workers === '1' ? '1 worker' : `${workers} workers`,
      program: service(['--database', `sqlite:${file}`, '--workers', workers]),
      cores: 'both' as const,
      check,
    }));
    return await measureThroughput(
      {
        name: this.name,
        title: this.title,
        load: { connections: 64, requests: userRequests(users) },
        contestants,
        bars: [],
        notes: ['where there are two cores, the second worker shares its own with the load'],
      },
      context,
    );
  },
};
