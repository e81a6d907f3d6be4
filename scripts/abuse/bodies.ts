import { setTimeout as sleep } from 'node:timers/promises';
import { pinSelf } from '../bench/cores.ts';
import { probe, shownProbes } from '../harness/offer.ts';
import { failIfUnanswered, startVictim } from './service.ts';

const perSecond = 8;
const seconds = 8;
const recordBytes = 128 * 1024;
const echoBytes = 1024 * 1024;
// One less than the service allows: an object begins with a brace, which counts as well.
const members = 9_999;

interface Flood {
  readonly path: string;
  readonly what: string;
  readonly body: string;
}

/** JSON of this length, with as many members as a body may have. */
function object(bytes: number): string {
  const digits = String(members).length;
  const rest = bytes - members * '"":1,'.length - 1;
  const key = (i: number) =>
    String(i)
      .padStart(digits, '0')
      .padStart(Math.floor(rest / members), 'k');
  return `{${Array.from({ length: members }, (_, i) => `"${key(i)}":1`).join(',')}}`;
}

function string(bytes: number, character: string): string {
  return `"${character.repeat(Math.floor((bytes - 2) / Buffer.byteLength(character)))}"`;
}

function array(bytes: number, element: string): string {
  const count = Math.min(members, Math.floor((bytes - 2) / (element.length + 1)));
  return `[${Array(count).fill(element).join(',')}]`;
}

const escaped = '\\ud83d\\ude00';
const floods: readonly Flood[] = [
  { path: '/users', what: 'members', body: object(recordBytes) },
  { path: '/users/1/posts', what: 'escaped text', body: `{"title":"a","body":"${escaped.repeat(10_000)}"}` },
  { path: '/echo', what: 'members', body: object(echoBytes) },
  { path: '/echo', what: 'numbers', body: array(echoBytes, '1.'.padEnd(103, '7')) },
  { path: '/echo', what: 'escaped text', body: string(echoBytes, escaped) },
  { path: '/echo', what: 'text of four bytes a character', body: string(echoBytes, '😀') },
  { path: '/echo', what: 'text', body: string(echoBytes, 'a') },
  { path: '/echo', what: 'spaces', body: `1${' '.repeat(echoBytes - 1)}` },
];

/** Sends the bodies that take longest to parse within the limits, and reports the delay of probes. */
export async function* measureBodies(only: RegExp): AsyncGenerator<string> {
  pinSelf('load');
  for (const { path, what, body } of floods.filter((flood) => only.test(`${flood.path} ${flood.what}`))) {
    const victim = await startVictim();
    try {
      const statuses = new Map<number, number>();
      const probes = probe({ port: victim.port, seconds });
      const headers = { 'content-type': 'application/json' };
      const startedAt = performance.now();
      for (let i = 0; i < perSecond * seconds; i += 1) {
        const response = await fetch(victim.url + path, { method: 'POST', headers, body });
        await response.arrayBuffer();
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        await sleep(Math.max(0, startedAt + ((i + 1) * 1_000) / perSecond - performance.now()));
      }
      const answered = [...statuses].map(([status, count]) => `${count} times ${status}`).join(', ');
      yield `${path}, ${Math.round(Buffer.byteLength(body) / 1024)} KiB of ${what}, ${perSecond} a second: ${answered}`;
      const report = await probes;
      yield `  ${shownProbes(report)}`;
      failIfUnanswered(what, report);
    } finally {
      await victim.end();
    }
  }
}
