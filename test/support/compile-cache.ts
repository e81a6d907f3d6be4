import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder: string | undefined;

/**
 * Runs before all test files of `npm test`. The processes of one run share their compiled modules: with them a
 * service starts with a third of the processor time. A single test file also runs without this setup.
 */
export async function globalSetup(): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), 'users-service-compiled-'));
  process.env['NODE_COMPILE_CACHE'] ??= folder;
}

export async function globalTeardown(): Promise<void> {
  if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}
