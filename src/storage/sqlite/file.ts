import { existsSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DomainError } from '../../domain/errors.ts';

/**
 * Makes a folder and those above it. Node's own `recursive` never ends where a folder is there and yet
 * takes none, as in /proc.
 */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(dirname(folder));
  try {
    await mkdir(folder);
  } catch (caught) {
    // Another process has been faster.
    if (!existsSync(folder)) throw caught;
  }
}

/** A file that is open: SQLite would go on with it long after its name has gone to another, or to none. */
export class OpenFile {
  readonly #path: string;
  readonly #identity: string | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#identity = identify(path);
  }

  /** Throws `unavailable` when the file at the path is not the one that was opened. */
  check(): void {
    if (identify(this.#path) === this.#identity) return;
    const cause = new Error(`the file ${this.#path} has been removed or replaced since it was opened`);
    throw new DomainError('unavailable', 'the store is not available', { cause });
  }
}

function identify(path: string): string | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev}:${stats.ino}`;
}
