import { once } from 'node:events';
import { cpSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, shuffle } from '../../harness/statistics.ts';
import { answersJson } from '../check.ts';
import { dataFile, listedRole, spreadIds } from '../data.ts';
import { type Load, sendLoad } from '../load.ts';
import { openDatabase } from '../peers/database.ts';
import { ours, serviceOver } from '../peers.ts';
import { report } from '../progress.ts';
import type { Case } from '../result.ts';
import { type Program, peer, start } from '../subject.ts';
import { contest } from '../turns.ts';
import { getUserCalls } from './grpc.ts';
import { newUser } from './writes.ts';

const users = 100_000;
const posts = 1_000_000;
const mebibyte = 2 ** 20;
const idleConnections = 5_000;
const idleRounds = 5;
const streams = 5;
const constant = 'node:http, a constant';

/** The memory of a connection that has received one response and is kept open. */
export const memoryOfIdleConnections: Case = {
  name: 'idle',
  title: `memory of an idle connection, ${idleConnections} at once`,
  async run({ folder, dataFolder }) {
    const file = await dataFile(dataFolder, 1_000);
    const subjects = [serviceOver(file), { name: constant, program: peer('bare.js', '{"id":7}') }].map(
      (one) => ({ ...one, kibibytes: [] as number[] }),
    );
    for (let round = 0; round < idleRounds; round += 1) {
      report(`idle: round ${round + 1} of ${idleRounds}`);
      for (const { program, kibibytes } of shuffle(subjects)) {
        kibibytes.push((await bytesOfIdle(program, folder)) / 1024);
      }
    }
    const series = subjects.map(({ name, kibibytes }) => ({ name, values: { KiB: kibibytes } }));
    const bars = [{ theirs: constant, atMost: 1.2 }];
    return [{ name: this.name, title: this.title, compare: ['KiB'], series, bars }];
  },
};

async function bytesOfIdle(program: Program, folder: string): Promise<number> {
  // Collect garbage before each measurement, because garbage of a connection does not count.
  const exposed = { ...program, args: ['--expose-gc', '--import', collector, ...program.args] };
  const subject = await start(exposed, folder);
  const sockets: Socket[] = [];
  const open = async (): Promise<void> => {
    const socket = connect(Number(new URL(subject.http).port), '127.0.0.1');
    sockets.push(socket);
    socket.write('GET /users/7 HTTP/1.1\r\nhost: localhost\r\n\r\n');
    const [bytes]: Buffer[] = await once(socket, 'data');
    if (!bytes?.toString().startsWith('HTTP/1.1 200')) throw new Error(`no 200, but ${bytes}`);
  };
  const collectedBytes = async (): Promise<number> => {
    process.kill(subject.pid, 'SIGUSR2');
    await sleep(1_000);
    return subject.residentBytes();
  };
  try {
    await open();
    const before = await collectedBytes();
    for (let i = 0; i < idleConnections; i += 1) await open();
    const after = await collectedBytes();
    if (sockets.some(({ readyState }) => readyState !== 'open')) throw new Error('a connection was closed');
    return (after - before) / idleConnections;
  } finally {
    for (const socket of sockets) socket.destroy();
    await subject.stop();
  }
}

const smallHeapFlags = ['--max-old-space-size=64', '--max-semi-space-size=8'];

const collector = `data:text/javascript,process.on('SIGUSR2',()=>gc())`;

/** The service with little memory and the advised flags, under the work that creates the most garbage. */
export const smallHeap: Case = {
  name: 'heap',
  title: 'lists of 100 with a heap of 64 MiB and a semi-space of 8 MiB',
  async run(context) {
    const file = await dataFile(context.dataFolder, users);
    const normal = serviceOver(file);
    const small = { ...normal.program, args: [...smallHeapFlags, ...normal.program.args] };
    const path = `/users?role=${listedRole}&sort=name&limit=100`;
    const work = {
      name: this.name,
      title: this.title,
      load: { connections: 64, paths: [path] },
      check: answersJson(
        path,
        JSON.parse(JSON.stringify(openDatabase(file).listUsers(listedRole, 'name', 100))),
      ),
    };
    return await contest(
      [
        { name: '64 MiB', program: small },
        { ...normal, name: 'no limit' },
      ],
      [work],
      context,
    );
  },
};

/** All kinds of work in turn for ten minutes. Compares the memory at the end with that at the start. */
export const soak: Case = {
  name: 'soak',
  title: 'memory under mixed load, the last tenth of the time against the second tenth',
  long: true,
  async run({ folder, dataFolder, soakSeconds }) {
    const file = join(folder, 'soak.db');
    cpSync(await dataFile(dataFolder, users), file);
    const subject = await start(serviceOver(file).program, folder);
    const memory: number[] = [];
    try {
      const endsAt = performance.now() + soakSeconds * 1000;
      while (performance.now() < endsAt) {
        for (const load of mixedLoads) await sendLoad(subject, load, 2_048);
        subject.emptyLog();
        memory.push(subject.residentBytes() / mebibyte);
        report(`soak: round ${memory.length}`);
      }
    } finally {
      await subject.stop();
    }
    const tenth = Math.max(1, Math.floor(memory.length / 10));
    const [early, late] = ['second tenth', 'last tenth'];
    const requests = (memory.length * mixedLoads.length * 2_048).toLocaleString('en');
    return [
      {
        name: this.name,
        title: this.title,
        compare: ['MiB'],
        series: [
          { name: late, values: { MiB: [median(memory.slice(-tenth))] } },
          { name: early, values: { MiB: [median(memory.slice(tenth, 2 * tenth))] } },
        ],
        bars: [{ theirs: early, atMost: 1.1 }],
        notes: [`${requests} requests; at most ${Math.max(...memory).toFixed(0)} MiB`],
      },
    ];
  },
};

const mixedLoads: readonly Load[] = [
  {
    connections: 64,
    paths: spreadIds(users, 500).flatMap((id) => [
      `/users/${id}`,
      `/users?role=${listedRole}&sort=-name&limit=20`,
      `/users/${id}/posts?limit=20`,
      '/index.html',
      '/health',
    ]),
  },
  newUser,
  {
    ...newUser,
    paths: spreadIds(users, 500).map((id) => `/users/${id}/posts`),
    body: '{"title":"A post","body":"Its text"}',
  },
];

/** The memory that the service needs while it streams a million posts in one response. */
export const memoryOfStream: Case = {
  name: 'stream',
  title: 'memory added while 1,000,000 posts stream',
  async run({ folder, dataFolder }) {
    const file = await dataFile(dataFolder, 1, posts);
    const MiB: number[] = [];
    while (MiB.length < streams) MiB.push((await memoryOfOne(file, folder)) / mebibyte);
    const series = [{ name: ours, values: { MiB } }];
    return [{ name: this.name, title: this.title, compare: [], series, bars: [{ atMost: 40 }] }];
  },
};

/** The memory, in bytes, that a new process needs for one stream. */
async function memoryOfOne(file: string, folder: string): Promise<number> {
  const subject = await start(serviceOver(file).program, folder);
  let most = 0;
  try {
    await drain(`${subject.http}/users/1/posts?limit=100`);
    // The first call loads grpc-js, which otherwise would be loaded during the stream.
    await sendLoad(subject, getUserCalls, getUserCalls.connections);
    const before = subject.residentBytes();
    const sampler = setInterval(() => {
      most = Math.max(most, subject.residentBytes() - before);
    }, 20);
    const bytes = await drain(`${subject.http}/users/1/posts`);
    clearInterval(sampler);
    if (bytes < posts * 100) throw new Error(`only ${bytes} bytes arrived`);
  } finally {
    await subject.stop();
  }
  return most;
}

/** Reads a response to its end, and resolves to its length. */
async function drain(url: string): Promise<number> {
  const { body, status } = await fetch(url);
  if (status !== 200 || body === null) throw new Error(`${url} returned ${status}`);
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.length;
  return bytes;
}
