import { execFileSync } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isOver } from '../harness/statistics.ts';
import { grpcWork } from './cases/grpc.ts';
import { newUser } from './cases/writes.ts';
import { answersBytes, answersJson } from './check.ts';
import type { Case, CaseResult } from './result.ts';
import { root, service } from './subject.ts';
import { type Contestant, contest, cpu, type Work } from './turns.ts';

const users = 1_000;
const allowedLoss = 1.05;
// Five kinds of work in less than two minutes, also on a busy machine.
const maxRounds = 40;
const maxSeconds = 12;
const here = 'this checkout';

/** Compares this checkout with a commit in a few kinds of work, while both run. */
export function measureAgainst(commit: string): Case {
  return {
    name: 'quick',
    title: `this checkout beside ${commit}`,
    async run({ folder }) {
      const tree = join(folder, 'commit');
      const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
      const hash = git('rev-parse', '--short', `${commit}^{commit}`);
      git('worktree', 'add', '--quiet', '--detach', tree, hash);
      try {
        symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'));
        const files = join(folder, 'files');
        mkdirSync(files);
        const bytes = randomFillSync(new Uint8Array(10 * 1024));
        writeFileSync(join(files, '10k.bin'), bytes);
        const contestants = [contestant(here, root, folder, files), contestant(hash, tree, folder, files)];
        return await contest(contestants, works(bytes), { folder, rounds: maxRounds, maxSeconds });
      } finally {
        git('worktree', 'remove', '--force', tree);
      }
    },
  };
}

/** The service of a checkout with a file that it created, because another commit may have another schema. */
function contestant(name: string, checkout: string, folder: string, files: string): Contestant {
  const database = `sqlite:${join(folder, `${name.replace(' ', '-')}.db`)}`;
  execFileSync(
    process.execPath,
    [join(checkout, 'src', 'main.ts'), 'import', '--partial', '--database', database],
    {
      input: Array.from({ length: users }, (_, i) => `${JSON.stringify(record(i + 1))}\n`).join(''),
      stdio: ['pipe', 'ignore', 'inherit'],
    },
  );
  return { name, program: service(['--database', database, '--public', files], checkout) };
}

function record(id: number) {
  return { type: 'user', ...userOf(id) };
}

function userOf(id: number) {
  return { id, name: `User ${String(id).padStart(4, '0')}`, role: id % 4 === 0 ? 'editor' : 'member' };
}

function works(bytes: Uint8Array): Work[] {
  const connections = 32;
  const editors = Array.from({ length: 20 }, (_, i) => userOf((i + 1) * 4));
  const list = '/users?role=editor&sort=name&limit=20';
  return [
    {
      name: 'get',
      title: 'GET /users/{id}',
      load: { connections, paths: Array.from({ length: users }, (_, i) => `/users/${i + 1}`) },
      check: answersJson('/users/7', userOf(7)),
    },
    {
      name: 'list',
      title: 'GET /users: 20 of a role, by name',
      load: { connections, paths: [list] },
      check: answersJson(list, editors),
    },
    {
      name: 'file',
      title: 'GET a file of 10 KiB',
      load: { connections, paths: ['/10k.bin'] },
      check: answersBytes('/10k.bin', bytes),
    },
    grpcWork('grpc', 'gRPC GetUser', userOf(7).name),
    // This is last because it adds users.
    { name: 'post', title: 'POST /users', load: newUser, check: async () => undefined },
  ];
}

/** Whether a request costs this checkout more CPU time by more than the whole interval. */
export function isSlower({ series: [ours, theirs] }: CaseResult): boolean {
  return isOver(ours?.values[cpu] ?? [], theirs?.values[cpu] ?? [], allowedLoss);
}
