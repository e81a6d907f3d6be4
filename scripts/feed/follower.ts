import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Deliveries } from './deliveries.ts';
import { Replica } from './replica.ts';

const [minStayMs, maxStayMs] = [500, 10_000];
const maxAwayMs = 1_000;
const retryMs = 50;
const answerTimeoutMs = 5_000;

export interface Followed {
  readonly replica: Replica;
  /** How often it connected. */
  connections: number;
  /** Replies that no follower should get. */
  readonly violations: Set<string>;
}

/** Follows one service after the other, leaves at random, and resumes by `Last-Event-ID`, until the signal. */
export function follow(
  urls: readonly string[],
  deliveries: Deliveries,
  signal: AbortSignal,
): { followed: Followed; ended: Promise<void> } {
  const followed: Followed = { replica: new Replica(), connections: 0, violations: new Set() };
  return { followed, ended: run(followed, urls, deliveries, signal) };
}

async function run(
  followed: Followed,
  urls: readonly string[],
  deliveries: Deliveries,
  signal: AbortSignal,
): Promise<void> {
  let lastEventId = '0';
  let since = 0;
  while (!signal.aborted) {
    const url = `${urls[Math.floor(Math.random() * urls.length)]}/changes`;
    let hasLeft = false;
    let leave: NodeJS.Timeout | undefined;
    try {
      const response = await open(url, lastEventId, signal);
      if (response.statusCode !== 200) {
        if (response.statusCode !== 503) followed.violations.add(`status ${response.statusCode}`);
        response.destroy();
        await sleep(retryMs);
        continue;
      }
      followed.connections += 1;
      leave = setTimeout(
        () => {
          hasLeft = true;
          response.destroy();
        },
        minStayMs + Math.random() * (maxStayMs - minStayMs),
      );
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) {
        text += chunk;
        const blocks = text.split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          const fields = new Map(block.split('\n').map((line) => split(line)));
          if (fields.get('event') === 'gone') followed.violations.add('gone');
          const data = fields.get('data');
          const name =
            data === undefined || fields.has('event') ? undefined : followed.replica.apply(JSON.parse(data));
          if (name !== undefined) deliveries.receive(name, since);
          lastEventId = fields.get('id') ?? lastEventId;
        }
      }
    } catch {
      // The process was killed, or the follower has left.
    }
    clearTimeout(leave);
    await sleep(hasLeft ? Math.random() * maxAwayMs : retryMs);
    if (hasLeft) since = performance.now();
  }
}

async function open(url: string, lastEventId: string, signal: AbortSignal): Promise<IncomingMessage> {
  const headers = { accept: 'text/event-stream', 'last-event-id': lastEventId };
  const sent = request(url, { headers, signal, agent: false });
  const timer = setTimeout(() => sent.destroy(new Error('no reply')), answerTimeoutMs);
  sent.end();
  try {
    const [response]: IncomingMessage[] = await once(sent, 'response');
    sent.on('error', () => {});
    if (response === undefined) throw new Error('no response');
    return response;
  } finally {
    clearTimeout(timer);
  }
}

function split(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon), line.slice(colon + 1).trimStart()];
}
