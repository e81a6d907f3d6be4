import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let root: string | undefined;

/** A new, empty folder. The folders of a process are removed when it ends, after the stores that use them. */
export function temporaryFolder(): string {
  if (root === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'users-service-'));
    process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
    root = folder;
  }
  return mkdtempSync(join(root, 'test-'));
}
