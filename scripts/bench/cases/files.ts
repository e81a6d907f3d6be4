import { randomFillSync } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answersBytes } from '../check.ts';
import { ours } from '../peers.ts';
import type { Case } from '../result.ts';
import { peer, service } from '../subject.ts';
import { contest, type Work } from '../turns.ts';

const files = [
  { name: 'file-10k', file: '10k.bin', size: 10 * 1024, connections: 32, atLeast: 3 },
  { name: 'file-1m', file: '1m.bin', size: 1024 * 1024, connections: 8, atLeast: 1.1 },
];

export const staticFiles: Case = {
  name: 'files',
  title: 'GET a static file',
  async run(context) {
    const folder = join(context.folder, 'files');
    mkdirSync(folder);
    const works = files.map(({ name, file, size, connections, atLeast }): Work => {
      // Random bytes, which do not compress.
      const bytes = randomFillSync(new Uint8Array(size));
      writeFileSync(join(folder, file), bytes);
      return {
        name,
        title: `GET a file of ${size / 1024} KiB`,
        load: { connections, paths: [`/${file}`] },
        check: answersBytes(`/${file}`, bytes),
        bars: [{ theirs: 'sirv', atLeast }],
      };
    });
    const contestants = [
      { name: ours, program: service(['--database', 'memory:', '--public', folder]) },
      { name: 'sirv', program: peer('sirv.ts', folder) },
    ];
    return await contest(contestants, works, context);
  },
};
