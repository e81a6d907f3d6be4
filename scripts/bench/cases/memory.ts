import { randomFillSync } from 'node:crypto';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchContext, Case, CaseResult } from '../case.ts';
import { dataFile, listedRole, spreadIds } from '../data.ts';
import { sendLoad } from '../load/load.ts';
import type { LoadRequest } from '../load/types.ts';
import { progressBar } from '../progress.ts';
import { median } from '../statistics.ts';
import { service, start } from '../subject.ts';

const users = 100_000;
const posts = 1_000_000;
const mebibyte = 2 ** 20;
const sliceSeconds = 5;

/** What was seen in a few seconds of load. */
interface Slice {
  readonly requests: number;
  readonly p99Ms: number;
  /** Resident memory at its end. */
  readonly mebibytes: number;
}

/** All kinds of work at once, for ten minutes: memory at the end against memory at the beginning. */
export const memoryUnderLoad: Case = {
  name: 'memory',
  title: 'memory under mixed load, the last tenth against the second',
  long: true,
  async run(context: BenchContext): Promise<CaseResult> {
    const { folder, memorySeconds } = context;
    const file = join(folder, 'memory.db');
    cpSync(await dataFile(context.dataFolder, users), file);
    const publicFolder = join(folder, 'memory-public');
    mkdirSync(publicFolder);
    writeFileSync(join(publicFolder, '10k.bin'), randomFillSync(new Uint8Array(10 * 1024)));
    const program = service(['--database', `sqlite:${file}`, '--public', publicFolder]);
    const subject = await start(program, folder);
    const slices: Slice[] = [];
    try {
      const load = { connections: 64, requests: mixedRequests() };
      const progress = progressBar('memory: under load', memorySeconds);
      while (slices.length * sliceSeconds < memorySeconds) {
        const { requests, errors, p99Ms = Number.NaN } = await sendLoad(subject.http, load, sliceSeconds);
        if (errors > 0) throw new Error(`${errors} of ${requests} answers were errors`);
        slices.push({ requests, p99Ms, mebibytes: subject.residentBytes() / mebibyte });
        progress(slices.length * sliceSeconds);
      }
      return toResult(this, slices);
    } finally {
      await subject.stop();
    }
  },
};

function toResult({ name, title }: Case, slices: readonly Slice[]): CaseResult {
  const memory = slices.map(({ mebibytes }) => mebibytes);
  const tenth = Math.max(1, Math.floor(slices.length / 10));
  const [early, late] = ['second tenth', 'last tenth'];
  const requests = slices.reduce((sum, slice) => sum + slice.requests, 0);
  const x = slices.map((_, i) => ((i + 1) * sliceSeconds) / 60);
  const over = 'over minutes of mixed load';
  return {
    name,
    title,
    unit: 'MiB',
    better: 'less',
    series: [
      { name: early, values: [median(memory.slice(tenth, 2 * tenth))] },
      { name: late, values: [median(memory.slice(-tenth))] },
    ],
    bars: [{ ours: late, theirs: early, atMost: 1.1 }],
    curves: [
      { chart: `Memory in MiB ${over}`, line: 'resident', x, y: memory },
      { chart: `p99 in ms ${over}`, line: 'p99', x, y: slices.map(({ p99Ms }) => p99Ms) },
    ],
    notes: [`${requests.toLocaleString('en')} requests; at most ${Math.max(...memory).toFixed(0)} MiB`],
  };
}

/** A million posts in one answer: what memory is taken for them while they stream. */
export const memoryOfStream: Case = {
  name: 'stream',
  title: 'memory added while 1,000,000 posts stream',
  async run({ folder, dataFolder, rounds }: BenchContext): Promise<CaseResult> {
    const file = await dataFile(dataFolder, 1, posts);
    const subject = await start(service(['--database', `sqlite:${file}`]), folder);
    try {
      await drainPosts(`${subject.http}/users/1/posts?limit=100`);
      const added: number[] = [];
      const progress = progressBar('stream', rounds);
      for (let round = 0; round < rounds; round += 1) {
        const before = subject.residentBytes();
        let most = before;
        const sampler = setInterval(() => {
          most = Math.max(most, subject.residentBytes());
        }, 20);
        const count = await drainPosts(`${subject.http}/users/1/posts`);
        clearInterval(sampler);
        if (count !== posts) throw new Error(`${count} posts came, not ${posts}`);
        added.push((most - before) / mebibyte);
        progress(round + 1);
      }
      const ours = 'users-service';
      return {
        name: this.name,
        title: this.title,
        unit: 'MiB',
        better: 'less',
        series: [{ name: ours, values: [Math.max(...added)] }],
        bars: [{ ours, atMost: 50 }],
      };
    } finally {
      await subject.stop();
    }
  },
};

/** Reads an answer to its end; resolves to the number of posts in it. */
async function drainPosts(url: string): Promise<number> {
  const { body, status } = await fetch(url);
  if (status !== 200 || body === null) throw new Error(`${url} was answered with ${status}`);
  const field = Buffer.from('"userId":1,');
  let count = 0;
  let rest = Buffer.alloc(0);
  for await (const chunk of body) {
    const bytes = Buffer.concat([rest, chunk]);
    let from = 0;
    for (let at = bytes.indexOf(field); at !== -1; at = bytes.indexOf(field, from)) {
      count += 1;
      from = at + field.length;
    }
    // What may be the beginning of the next one.
    rest = Buffer.from(bytes.subarray(Math.max(from, bytes.length - field.length + 1)));
  }
  return count;
}

function mixedRequests(): LoadRequest[] {
  const headers = { 'content-type': 'application/json' };
  return spreadIds(users, 500).flatMap((id): LoadRequest[] => [
    { path: `/users/${id}` },
    { path: `/users/${id}` },
    { path: `/users?role=${listedRole}&sort=-name&limit=20` },
    { method: 'POST', path: '/users', headers, body: `{"name":"User ${id}","role":"member"}` },
    { method: 'POST', path: `/users/${id}/posts`, headers, body: '{"title":"A post","body":"Its text"}' },
    // Not all of them: they become more and more.
    { path: `/users/${id}/posts?limit=20` },
    { path: '/10k.bin' },
    { path: '/health' },
  ]);
}
