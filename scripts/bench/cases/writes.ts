import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { slowSyncs } from '../../harness/slow-syncs.ts';
import { keepsUser } from '../check.ts';
import { commandExists } from '../cores.ts';
import { dataFile } from '../data.ts';
import { bare, ours, type PeerName, peerOver, serviceOver } from '../peers.ts';
import { type BenchContext, type Case, skipped } from '../result.ts';
import { behind, peer } from '../subject.ts';
import { type Contestant, contest, type Work } from '../turns.ts';

const users = 100_000;
// A file system in memory, where a sync costs no time.
const memoryFolder = '/dev/shm';
const parsing = 'node:http with JSON.parse, no database';
const onTwoCores = `${ours}, two cores`;

export const newUser = {
  connections: 64,
  paths: ['/users'],
  headers: { 'content-type': 'application/json' },
  body: '{"name":"New User","role":"member"}',
};

interface Plan {
  readonly peers: readonly PeerName[];
  readonly bars?: Work['bars'];
  /** The additional time of a sync, in ms. */
  readonly syncMs?: number;
  readonly inMemory?: boolean;
}

/** POST /users, acknowledged after a sync. Each contestant has a separate file, so that they do not share a lock. */
function createUser(name: string, title: string, plan: Plan): Case {
  const { peers, bars = [], syncMs = 0, inMemory = false } = plan;
  return {
    name,
    title,
    async run(context: BenchContext) {
      if (syncMs > 0 && !commandExists('strace')) return skipped(name, title, 'strace is missing');
      if (inMemory && !existsSync(memoryFolder)) return skipped(name, title, `${memoryFolder} is missing`);
      const folder = mkdtempSync(join(inMemory ? memoryFolder : context.folder, `${name}-`));
      try {
        const data = await dataFile(context.dataFolder, users);
        const fileOf = (who: string) => join(folder, `${who}.db`);
        const over = (who: string) => {
          cpSync(data, fileOf(who));
          return fileOf(who);
        };
        const contestants: Contestant[] = [
          serviceOver(over(ours)),
          ...peers.flatMap((who) => peerOver(who, over(who), context.folder)),
        ];
        if (inMemory) {
          contestants.push(
            { ...serviceOver(over(onTwoCores)), name: onTwoCores, cores: 'all' },
            ...peerOver('Fastify', over(bare('Fastify')), context.folder, true),
            { name: parsing, program: peer('bare.js', '{"id":7}') },
          );
        }
        const slowed = contestants.map((one) => ({
          ...one,
          program: behind(slowSyncs(syncMs), one.program),
        }));
        const work: Work = {
          name,
          title,
          bars,
          load: newUser,
          check: async (subject, who) => {
            if (who !== parsing) await keepsUser(subject, fileOf(who));
          },
        };
        return await contest(slowed, [work], context);
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  };
}

export const createOnDisk = createUser('post', 'POST /users on this disk', {
  peers: ['Fastify', 'Hono', 'Express', 'Go'],
});

export const createOnSlowDisk = createUser('post-slow', 'POST /users where a sync takes 2 ms longer', {
  peers: ['Fastify', 'Go'],
  syncMs: 2,
  bars: [{ theirs: 'Fastify', atLeast: 10 }],
});

export const createInMemory = createUser('post-memory', 'POST /users where a sync costs nothing (tmpfs)', {
  peers: ['Fastify', 'Hono', 'Express', 'Go'],
  inMemory: true,
  bars: [
    { theirs: 'Fastify', atLeast: 2 },
    { ours: onTwoCores, theirs: parsing, atLeast: 0.6 },
  ],
});
