import { setTimeout as sleep } from 'node:timers/promises';
import type { Clients } from './client.ts';
import type { Node } from './cluster.ts';
import type { Change, Response as Outcome, Request } from './history.ts';
import type { Plan } from './plan.ts';

const idleMs = 30;
// When a follower closes its stream, and resumes at the next process.
const streamMs = 1_000;

/** Follows `/changes` up to a position, which is infinite until the end of a run, by pages or by streams. */
export async function follow(
  { n: client, isStream, leaveAfter }: Plan['followers'][number],
  clients: Clients,
  end: { position: number },
): Promise<void> {
  for (let [position, round] = [0, client]; position < end.position; round += 1) {
    const request: Request = {
      step: round,
      client,
      process: round,
      kind: 'follow',
      record: 'change',
      position,
    };
    const { changes = [], next } =
      isStream && end.position === Number.POSITIVE_INFINITY
        ? await clients.send(request, (node) => stream(node, position, leaveAfter))
        : await clients.send({ ...request, query: { limit: 50 } });
    position = Number(next ?? changes.at(-1)?.id ?? position);
    if (changes.length === 0) await sleep(idleMs);
  }
}

/** Reads a stream until it has sent enough, or for its time. Its connection may end within an event. */
async function stream({ http }: Node, position: number, enough: number): Promise<Outcome> {
  const signal = AbortSignal.timeout(streamMs);
  const blocks = [''];
  try {
    const headers = { accept: 'text/event-stream', 'last-event-id': String(position) };
    const response = await fetch(`${http}/changes`, { headers, signal });
    if (!response.ok) return { status: response.status, note: await response.text() };
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      blocks.push(...`${blocks.pop()}${chunk}`.split('\n\n'));
      if (blocks.length > enough) break;
    }
  } catch (caught) {
    if (!signal.aborted && blocks.length === 1) throw caught;
  }
  const events = blocks.slice(0, -1).map((block) => /^data: ?(.*)$/m.exec(block)?.[1]);
  const changes = events.flatMap((data): Change[] => (data === undefined ? [] : JSON.parse(data)));
  return { status: 200, changes };
}
