import {
  type Change,
  type ChangePage,
  type ChangeQuery,
  ChangesGone,
  parseChangePosition,
  parseChangeQuery,
} from '../domain/change.ts';
import type { ChangeFeed } from '../domain/repository.ts';
import { parseWeights } from '../http/conditional.ts';
import type { Handler } from '../http/listener.ts';
import type { Reply } from '../http/reply.ts';
import type { HttpRequest } from '../http/request.ts';
import { eventText, take, withBase } from './cloud-event.ts';
import type { Followers } from './followers.ts';

const batchType = 'application/cloudevents-batch+json';
const streamType = 'text/event-stream';
// Maximum length of a page: long posts end it before its limit.
const maxBatchLength = 1024 * 1024;
// A store examines a limited number of changes in each read. If none of them matches the filter after this many
// reads, the page is empty, and its link continues from there.
const maxReads = 10;

/** The changes of users and posts, page by page or, as `text/event-stream`, as they happen. */
export function changes(feed: ChangeFeed, followers: Followers | undefined): Handler {
  return async (request) => {
    const { after: given, ...query } = parseChangeQuery(request.parameters);
    const resumed = request.header('last-event-id');
    const after = resumed === undefined ? given : parseChangePosition('Last-Event-ID', resumed);
    const start = await findStart(feed, query, after, request);
    if (followers === undefined || !prefersStream(request.header('accept'))) {
      return batch(await readOn(feed, start, request), request);
    }
    return {
      status: 200,
      headers: {
        'content-type': streamType,
        // Proxies and middleware that compress or buffer would delay events.
        'cache-control': 'no-store, no-transform',
        'x-accel-buffering': 'no',
        vary: 'accept',
      },
      body: { chunks: followers.follow(start.query, start.page, request) },
    };
  };
}

interface Start {
  readonly query: ChangeQuery;
  readonly page: ChangePage;
}

/** Reads the first page; without a position, from the oldest kept change. */
async function findStart(
  feed: ChangeFeed,
  filter: Omit<ChangeQuery, 'after'>,
  after: number | undefined,
  { signal }: HttpRequest,
): Promise<Start> {
  const query = { ...filter, after: after ?? 0 };
  try {
    return { query, page: await feed.read(query, { signal }) };
  } catch (caught) {
    if (after !== undefined || !(caught instanceof ChangesGone)) throw caught;
    const oldest = { ...query, after: caught.oldest - 1 };
    return { query: oldest, page: await feed.read(oldest, { signal }) };
  }
}

async function readOn(
  feed: ChangeFeed,
  { query, page }: Start,
  { signal }: HttpRequest,
): Promise<ChangePage> {
  let read = page;
  for (let reads = 1; reads < maxReads && read.more && read.changes.length === 0; reads += 1) {
    read = await feed.read({ ...query, after: read.next }, { signal });
  }
  return read;
}

function batch(page: ChangePage, { basePath, parameters }: HttpRequest): Reply {
  const textOf = (change: Change) => withBase(eventText(change), basePath);
  const { texts, end } = take(page.changes, page, textOf, maxBatchLength);
  const kept = parameters
    .filter(([name]) => name !== 'after')
    .map(([name, value]) => `&${name}=${encodeURIComponent(value)}`);
  return {
    status: 200,
    headers: {
      'content-type': `${batchType}; charset=utf-8`,
      'cache-control': 'no-cache',
      link: `<${basePath}/changes?after=${end}${kept.join('')}>; rel="next"`,
      vary: 'accept',
    },
    body: `[${texts.join(',')}]`,
  };
}

// Only for a client that names the type, as EventSource does.
function prefersStream(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const weights = parseWeights(accept);
  const stream = weights.get(streamType) ?? 0;
  const json = weights.get(batchType) ?? weights.get('application/json') ?? weights.get('*/*') ?? 0;
  return stream > 0 && stream >= json;
}
