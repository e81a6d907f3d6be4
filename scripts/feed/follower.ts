import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { maxTimerMs } from '../../src/domain/range.ts';
import type { Deliveries } from './deliveries.ts';
import { type Changes, Replica } from './replica.ts';

const [minStayMs, maxStayMs] = [500, 10_000];
const maxAwayMs = 1_000;
const retryMs = 50;
const answerTimeoutMs = 5_000;

export interface Followed {
  readonly replica: Replica;
  /** The number of connections. */
  connections: number;
  /** Responses that no follower should get. */
  readonly violations: Set<string>;
}

/**
 * Follows the services in turn until the signal. It disconnects at random unless it `stays`, and resumes with
 * `Last-Event-ID`.
 */
export function follow(
  urls: readonly string[],
  changes: Changes,
  deliveries: Deliveries,
  signal: AbortSignal,
  stays: boolean,
): { followed: Followed; ended: Promise<void> } {
  const followed: Followed = { replica: new Replica(), connections: 0, violations: new Set() };
  return { followed, ended: run(followed, urls, changes, deliveries, signal, stays) };
}

async function run(
  followed: Followed,
  urls: readonly string[],
  changes: Changes,
  deliveries: Deliveries,
  signal: AbortSignal,
  stays: boolean,
): Promise<void> {
  let lastEventId = '0';
  let since = 0;
  const { replica } = followed;
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
      const stayMs = stays ? maxTimerMs : minStayMs + Math.random() * (maxStayMs - minStayMs);
      leave = setTimeout(() => {
        hasLeft = true;
        response.destroy();
      }, stayMs);
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) {
        text += chunk;
        const blocks = text.split('\n\n');
        text = blocks.pop() ?? '';
        const now = performance.now();
        for (const block of blocks) {
          const end = block.indexOf('\n');
          if (block.startsWith('event: gone')) followed.violations.add('gone');
          if (!block.startsWith('id: ') || end < 0) continue;
          lastEventId = block.slice(4, end);
          const position = Number(lastEventId);
          if (!replica.isNext(position, block)) continue;
          const change = changes.receive(position, block);
          replica.apply(change, block);
          deliveries.receive(change.delivery, since, now);
        }
      }
    } catch {
      // The process was killed, or the follower has disconnected.
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
