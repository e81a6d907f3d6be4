import { randomFillSync } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from '../../../test/kit/free-ports.ts';
import type { Case, Contestant } from '../case.ts';
import { answersBytes } from '../check.ts';
import { commandExists } from '../cores.ts';
import { measureThroughput } from '../measure.ts';
import { type Program, peer, service } from '../subject.ts';

const ours = 'users-service';

/** Files of these sizes, by name; random, so that nothing is gained by packing them. */
const sizes = { '10k.bin': 10 * 1024, '1m.bin': 1024 * 1024 } as const;

export const smallFile = fileCase('file-10k', 'a file of 10 KB', '10k.bin', 64);
export const largeFile = fileCase('file-1m', 'a file of 1 MB', '1m.bin', 16);

function fileCase(name: string, title: string, file: keyof typeof sizes, connections: number): Case {
  return {
    name,
    title: `GET ${title}`,
    async run(context) {
      const folder = join(context.folder, name);
      mkdirSync(folder);
      const bytes = randomFillSync(new Uint8Array(sizes[file]));
      writeFileSync(join(folder, file), bytes);
      const check = answersBytes(`/${file}`, bytes);
      const contestants: Contestant[] = [
        { name: ours, program: service(['--database', 'memory:', '--public', folder]), check },
        { name: 'sirv', program: peer('sirv', folder), check },
      ];
      if (commandExists('nginx')) {
        contestants.push({ name: 'nginx', program: await nginx(folder), check });
      }
      return await measureThroughput(
        {
          name,
          title: this.title,
          load: { connections, requests: [{ path: `/${file}` }] },
          contestants,
          bars: [{ ours, theirs: 'sirv', atLeast: 1 }],
        },
        context,
      );
    },
  };
}

async function nginx(root: string): Promise<Program> {
  const [port = 0] = await freePorts(1);
  const place = `${root}-nginx`;
  mkdirSync(place);
  const config = join(place, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // Started by root, its workers would be somebody who may not read the folder.
  const user = process.getuid?.() === 0 ? 'user root root;' : '';
  writeFileSync(
    config,
    `${user} daemon off; worker_processes 1; pid ${place}/pid; error_log ${place}/error.log;
    events { worker_connections 1024; }
    http {
      ${temporary.map((kind) => `${kind}_temp_path ${place}/${kind};`).join(' ')}
      access_log ${place}/access.log combined buffer=64k;
      sendfile on; tcp_nopush on; keepalive_requests 1000000000; open_file_cache max=100;
      server { listen 127.0.0.1:${port}; root ${root}; }
    }`,
  );
  return { command: 'nginx', args: ['-p', place, '-c', config], http: `http://127.0.0.1:${port}` };
}
