import type { Change, ChangePage, ChangeQuery } from '../domain/change.ts';
import { ChangesGone, parseChangePosition, parseChangeQuery } from '../domain/change.ts';
import type { ChangeFeed } from '../domain/repository.ts';
import { prefers } from '../http/conditional.ts';
import { jsonText } from '../http/reply.ts';
import type { Handler, HttpRequest } from '../http/request.ts';
import { scheduler } from '../http/scheduler.ts';
import type { Followers } from './followers.ts';
import { fitting, maxReadRows } from './paging.ts';
import { cloudEvent } from './resources.ts';

const batchType = 'application/cloudevents-batch+json';
const streamType = 'text/event-stream';
const otherTypes = [batchType, 'application/json', 'application/*', '*/*'];
// Maximum length of a page in characters: long posts end it before its limit.
const maxPageCharacters = 1024 * 1024;
// A store examines a limited number of changes in each read. If too few match the filter in this many reads, the page
// is short or empty, and its link continues from there.
const maxReads = 50;

/** The changes of users and posts, page by page or, as `text/event-stream`, as they happen. */
export function changes(followers: Followers): Handler {
  const { feed } = followers;
  return async (request) => {
    // Read before any wait: if keys are revoked meanwhile, the stream ends at once.
    const { epoch } = followers;
    const { after: given, ...filter } = parseChangeQuery(request.parameters);
    // An empty one is that of a client without a last event (HTML Standard, 9.2.2).
    const resumed = request.header('last-event-id') ?? '';
    const after = resumed === '' ? given : parseChangePosition('Last-Event-ID', resumed);
    // The stream would never end if its socket has no events, as on serverless hosts.
    const canFollow = typeof request.response.socket?.once === 'function';
    const isStream = canFollow && prefers(request.header('accept'), streamType, otherTypes);
    // A stream reads its changes later, when it can send them. This read only checks its position.
    const limit = isStream ? 1 : Math.min(filter.limit, maxReadRows);
    const wanted = { ...filter, limit, after: after ?? 0 };
    const { query, page } = await readFirst(feed, wanted, after !== undefined, request);
    if (!isStream) return batch(feed, { ...query, limit: filter.limit }, page, request);
    return {
      status: 200,
      headers: {
        'content-type': streamType,
        // Proxies and middleware that compress or buffer would delay events.
        'cache-control': 'no-store, no-transform',
        'x-accel-buffering': 'no',
        vary: 'accept',
      },
      body: { chunks: followers.follow(query, request, epoch) },
    };
  };
}

/** Without a position, starts with the oldest kept change. Others may be removed before it is read. */
async function readFirst(feed: ChangeFeed, given: ChangeQuery, hasPosition: boolean, request: HttpRequest) {
  for (let query = given; ; ) {
    try {
      return { query, page: await feed.read(query, request) };
    } catch (caught) {
      if (hasPosition || !(caught instanceof ChangesGone) || caught.oldest - 1 <= query.after) throw caught;
      query = { ...query, after: caught.oldest - 1 };
    }
  }
}

async function batch(feed: ChangeFeed, query: ChangeQuery, first: ChangePage, request: HttpRequest) {
  const { basePath, parameters } = request;
  const eventOf = (change: Change) => cloudEvent(change, basePath);
  const events: string[] = [];
  let page = first;
  let after = query.after;
  let left = maxPageCharacters;
  for (let reads = 1; ; reads += 1) {
    const { texts, last } = fitting(page.changes, eventOf, left);
    events.push(...texts);
    left -= texts.join().length;
    after = last?.position ?? page.next;
    const limit = Math.min(query.limit - events.length, maxReadRows);
    if (last !== undefined || !page.more || limit === 0 || reads === maxReads) break;
    // Other requests run between the reads, so many pages may be in memory at a time.
    request.hold(maxPageCharacters - left);
    if (events.length > 0 && request.listener.memory.isShort) break;
    await scheduler.pause();
    page = await feed.read({ ...query, after, limit }, request);
  }
  const kept = parameters
    .filter(([name]) => name !== 'after')
    .map(([name, value]) => `&${name}=${encodeURIComponent(value)}`);
  return jsonText(200, `[${events.join()}]`, {
    'content-type': `${batchType}; charset=utf-8`,
    link: `<${basePath}/changes?after=${after}${kept.join('')}>; rel="next"`,
    vary: 'accept',
  });
}
