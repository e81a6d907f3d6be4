import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { chmod, cp, mkdtemp, realpath, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createPassword, startGuard } from '../kit/postgres.ts';

const run = promisify(execFile);

// The tests use less than 2 GB at a time.
const neededBytes = 4 * 2 ** 30;

let folder: string | undefined;
let guard: ReturnType<typeof startGuard> | undefined;

/**
 * Runs before all test files of `npm test`, which share a temporary folder. If possible it is in memory, where
 * creating a database takes a tenth of the processor time, and no test waits for a disk. The processes of one run
 * also share their compiled modules: with them a service starts with a third of the processor time. A single test
 * file also runs without this setup.
 */
export async function globalSetup(): Promise<void> {
  // On macOS the temporary folder is behind a link, but messages have the real path.
  folder = await realpath(await mkdtemp(join(await findPlace(), 'users-service-tests-')));
  guard = startGuard(folder);
  // PostgreSQL runs as another user if the tests run as root.
  await chmod(folder, 0o755);
  process.env['TMPDIR'] = folder;
  process.env['TEST_POSTGRES_PASSWORD'] = createPassword();
  process.env['NODE_COMPILE_CACHE'] ??= join(folder, 'compiled');
  // The TypeScript compiler is written in Go and exits soon. Collecting garbage less often saves a quarter of its time.
  process.env['GOGC'] ??= '400';
  // A syntax error fails only its own test file.
  await compile(globSync(process.argv.slice(1))).catch(() => undefined);
}

export async function globalTeardown(): Promise<void> {
  if (folder !== undefined) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  guard?.release();
}

/** Compiles files and what they import. Otherwise each process would load a compiler for its own test file. */
async function compile(files: readonly string[]): Promise<void> {
  // Node.js compiles all modules before it runs the first, which ends the process.
  const urls = ['data:text/javascript,process.exit()', ...files.map((file) => pathToFileURL(file).href)];
  const source = urls.map((url) => `import ${JSON.stringify(url)};`).join('');
  await run(process.execPath, ['--input-type=module', '--eval', source]);
}

async function findPlace(): Promise<string> {
  const memory = '/dev/shm';
  const { bavail, bsize } = await statfs(memory).catch(() => ({ bavail: 0, bsize: 0 }));
  const hasRoom = process.env['TMPDIR'] === undefined && bavail * bsize >= neededBytes;
  return hasRoom && (await runsPrograms(memory)) ? memory : tmpdir();
}

// Containers often mount it with `noexec`, but tests of clients compile and run programs.
async function runsPrograms(place: string): Promise<boolean> {
  const trial = await mkdtemp(join(place, 'users-service-trial-'));
  try {
    await cp('/bin/true', join(trial, 'true'));
    await run(join(trial, 'true'));
    return true;
  } catch {
    return false;
  } finally {
    await rm(trial, { recursive: true });
  }
}
