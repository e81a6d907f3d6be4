import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Scratch } from '../scratch.ts';

/** Files in a separate folder beside a database, so that they are on the same disk. */
export async function openSqliteScratch(path: string): Promise<Scratch> {
  const folder = await mkdtemp(`${path}.verify-`);
  let files = 0;
  return {
    async next() {
      files += 1;
      return `sqlite:${join(folder, `${files}.db`)}`;
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
