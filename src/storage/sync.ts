import { open } from 'node:fs/promises';
import { platform } from 'node:os';
import { messageOf } from '../domain/errors.ts';

// Not every file system can sync a folder, nor may every user open one.
const noSyncCodes = ['EBADF', 'EINVAL', 'ENOTSUP', 'EACCES', 'EPERM'];

/** Makes the name of a complete, new file or folder in a folder durable. Windows cannot sync folders. */
export async function syncFolder(path: string): Promise<void> {
  if (platform() === 'win32') return;
  try {
    await using folder = await open(path);
    await folder.sync();
  } catch (caught) {
    if (noSyncCodes.includes(Object(caught).code)) return;
    const message = `${path} has the new entry, but a loss of power may remove it: ${messageOf(caught)}`;
    throw new Error(message, { cause: caught });
  }
}
