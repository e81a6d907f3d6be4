import { setTimeout as sleep } from 'node:timers/promises';
import { noteOf, timeoutMs, type World } from './client.ts';
import type { Change, FeedEntry } from './history.ts';
import type { FollowerPlan } from './plan.ts';

const idleMs = 30;

/** The end of a run: `signal` ends the streams, and `last` is the last position to follow. */
export interface End {
  readonly signal: AbortSignal;
  last: number;
}

/** Follows `/changes` from the beginning, by pages or as a stream that it closes and resumes. */
export async function follow(plan: FollowerPlan, { addresses, now, feed }: World, end: End): Promise<void> {
  const { n: follower, leaveAfter } = plan;
  let after = 0;
  for (let round = follower; after < end.last; round += 1) {
    const process = round % addresses.length;
    const isStream = plan.isStream && !end.signal.aborted;
    const start = now();
    const changes: Change[] = [];
    let outcome: Pick<FeedEntry, 'status' | 'note'>;
    let next: string | undefined;
    const url = `${addresses[process]?.http}/changes`;
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = isStream ? AbortSignal.any([timeout, end.signal]) : timeout;
    try {
      const headers = { accept: 'text/event-stream', 'last-event-id': `${after}` };
      const response = isStream
        ? await fetch(url, { headers, signal })
        : await fetch(`${url}?after=${after}&limit=50`, { signal });
      outcome = { status: response.status };
      if (isStream && response.ok) changes.push(...(await readEvents(response, leaveAfter)));
      else {
        const text = await response.text();
        if (response.ok) changes.push(...JSON.parse(text).map(toChange));
        else outcome = { status: response.status, note: text };
        next = /[?&]after=(\d+)/.exec(response.headers.get('link') ?? '')?.[1];
      }
    } catch (caught) {
      outcome = isStream && signal.aborted ? { status: 200 } : noteOf(caught);
    }
    feed.push({ follower, process, after, changes, start, end: now(), ...outcome });
    after = Number(next ?? changes.at(-1)?.position ?? after);
    if (changes.length === 0) await sleep(idleMs);
  }
}

/** Reads a stream until it ends or has sent enough. The connection may end within an event. */
async function readEvents(response: Response, enough: number): Promise<Change[]> {
  const blocks = [''];
  try {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      blocks.push(...`${blocks.pop()}${chunk}`.split('\n\n'));
      if (blocks.length > enough) break;
    }
  } catch {}
  const events = blocks.slice(0, -1).map((block) => /^data: ?(.*)$/m.exec(block)?.[1]);
  return events.flatMap((data) => (data === undefined ? [] : toChange(JSON.parse(data))));
}

interface CloudEvent {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly data: Change['row'];
}

function toChange({ id, type, version, data }: CloudEvent): Change {
  return { position: Number(id), type, version, row: data };
}
