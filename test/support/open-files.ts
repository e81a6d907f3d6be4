import { existsSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';

const list = '/proc/self/fd';

/** The reason to skip a test that needs `openFilesIn`, or `false`. */
export const noOpenFiles = !existsSync(list) && 'needs /proc';

/** The paths of the files below a folder that this process has open. */
export function openFilesIn(folder: string): string[] {
  const paths = readdirSync(list).map((fd) => {
    try {
      return readlinkSync(`${list}/${fd}`);
    } catch {
      // It was closed since it was listed, such as the list itself.
      return '';
    }
  });
  return paths.filter((path) => path.startsWith(realpathSync(folder)));
}
