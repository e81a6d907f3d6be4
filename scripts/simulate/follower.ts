import { setTimeout as sleep } from 'node:timers/promises';
import { noteOf, timeoutMs, type World } from './client.ts';
import type { Change, Response as Outcome } from './history.ts';
import type { Plan } from './plan.ts';

const idleMs = 30;

/** The end of a run: `signal` ends the streams, and `last` is the last position to follow. */
export interface End {
  readonly signal: AbortSignal;
  last: number;
}

/** Follows `/changes` from the beginning, by pages or as a stream that it closes and resumes. */
export async function follow(plan: Plan['followers'][number], world: World, end: End): Promise<void> {
  const { nodes, now, feed } = world;
  for (let [after, round] = [0, plan.n]; after < end.last; round += 1) {
    const process = round % nodes.length;
    const isStream = plan.isStream && !end.signal.aborted;
    const timeout = AbortSignal.timeout(timeoutMs);
    const signal = isStream ? AbortSignal.any([timeout, end.signal]) : timeout;
    const headers = { 'last-event-id': `${after}`, ...(isStream && { accept: 'text/event-stream' }) };
    const start = now();
    const changes: Change[] = [];
    let outcome: Outcome;
    let next: string | undefined;
    try {
      const query = isStream ? '' : `?after=${after}&limit=50`;
      const response = await fetch(`${nodes[process]?.http}/changes${query}`, { headers, signal });
      outcome = { status: response.status };
      if (!response.ok) outcome = { status: response.status, note: await response.text() };
      else if (isStream) changes.push(...(await readEvents(response, plan.leaveAfter)));
      else changes.push(...JSON.parse(await response.text()).map(toChange));
      next = /[?&]after=(\d+)/.exec(response.headers.get('link') ?? '')?.[1];
    } catch (caught) {
      outcome = isStream && signal.aborted ? { status: 200 } : noteOf(caught);
    }
    feed.push({ follower: plan.n, process, after, changes, start, end: now(), ...outcome });
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

function toChange(
  event: Omit<Change, 'position' | 'row'> & { readonly id: string; readonly data: Change['row'] },
): Change {
  const { id, type, version, data } = event;
  return { position: Number(id), type, version, row: data };
}
