import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

// This folder has Hono, Nest, Next.js, adapters for AWS Lambda, test runners and the bundler. The root has the others.
// Files below this folder can import all of them.
export const folderOfHosts = join(root, 'scripts/hosts');

/** The reason to skip a test that needs these packages, or `false`. */
export function whyNot(packages: readonly string[]): string | false {
  const missing = packages.find((name) =>
    [folderOfHosts, root].every((folder) => !existsSync(join(folder, 'node_modules', name))),
  );
  return (
    missing !== undefined && `${missing} is not installed: npm ci --prefix scripts/hosts --ignore-scripts`
  );
}

/** A folder with these files, from which every installed package can be imported. */
export async function createFolder(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(folderOfHosts, '.example-'));
  // A server that has just been killed may still write a file.
  t.after(() => rm(folder, { recursive: true, maxRetries: 5, retryDelay: 200 }));
  for (const [name, text] of Object.entries({ 'package.json': '{"type":"module"}', ...files })) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}
