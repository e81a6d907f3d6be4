import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Deliveries } from './deliveries.ts';
import { nameOf } from './replica.ts';

const retryMs = 50;
const answerTimeoutMs = 15_000;
const maxUsers = 20;
const maxPosts = 3;

interface Record {
  readonly id: number;
  version: number;
}

interface User extends Record {
  readonly posts: Record[];
}

/**
 * Writes users and posts that no other writer changes, one in each `intervalMs`, until it is stopped. It
 * never uses a record again whose write had no response. Rejects after an unexpected response.
 */
export async function write(
  url: string,
  deliveries: Deliveries,
  isOver: () => boolean,
  intervalMs: number,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const users: User[] = [];

  const send = async (method: string, path: string, body?: object, key?: string) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    // It fails if the process was killed.
    const reply = await exchange(agent, url + path, method, text, key).catch(() => undefined);
    if (reply !== undefined && ![200, 201, 204, 409, 503].includes(reply.status))
      throw new Error(`${method} ${path} returned ${reply.status}: ${reply.text}`);
    if (reply !== undefined && reply.status < 300) return reply;
    await sleep(retryMs);
    return undefined;
  };
  /** Repeats a creation until it is acknowledged or the run is over. It must happen once. */
  const create = async (kind: string, path: string, body: object) => {
    const key = randomUUID();
    for (;;) {
      const reply = await send('POST', path, body, key);
      if (reply !== undefined) {
        const { id }: { id: number } = JSON.parse(reply.text);
        deliveries.acknowledge(nameOf(kind, id, 1));
        return { id, version: 1 };
      }
      if (isOver()) return undefined;
    }
  };
  const update = async (kind: string, path: string, record: Record, body: object) => {
    const reply = await send('PATCH', path, body);
    if (reply === undefined) return false;
    record.version += 1;
    deliveries.acknowledge(nameOf(kind, record.id, record.version));
    return true;
  };

  for (let dueAt = performance.now() + Math.random() * intervalMs; !isOver(); dueAt += intervalMs) {
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const i = Math.floor(Math.random() * users.length);
    const user = users[i];
    const dice = Math.random();
    if (user === undefined || (dice < 0.2 && users.length < maxUsers)) {
      const body = { name: `name ${Math.random()}`, ...(dice < 0.1 && { role: 'writer' }) };
      const created = await create('user', '/users', body);
      if (created !== undefined) users.push({ ...created, posts: [] });
    } else if (dice < 0.3) {
      users.splice(i, 1);
      if ((await send('DELETE', `/users/${user.id}`)) === undefined) continue;
      for (const { id } of user.posts) deliveries.acknowledge(nameOf('post', id, 'deleted'));
      deliveries.acknowledge(nameOf('user', user.id, 'deleted'));
    } else if (dice < 0.5 && user.posts.length < maxPosts) {
      const body = { title: `title ${Math.random()}`, body: 'text '.repeat(Math.random() * 20) };
      const created = await create('post', `/users/${user.id}/posts`, body);
      if (created !== undefined) user.posts.push(created);
    } else if (dice < 0.7 && user.posts.length > 0) {
      const [post] = user.posts.splice(Math.floor(Math.random() * user.posts.length), 1);
      if (post === undefined) continue;
      const path = `/users/${user.id}/posts/${post.id}`;
      if (dice < 0.65) {
        if (await update('post', path, post, { title: `title ${Math.random()}` })) user.posts.push(post);
      } else if ((await send('DELETE', path)) !== undefined) {
        deliveries.acknowledge(nameOf('post', post.id, 'deleted'));
      }
    } else if (!(await update('user', `/users/${user.id}`, user, { name: `name ${Math.random()}` }))) {
      users.splice(i, 1);
    }
  }
  agent.destroy();
}

async function exchange(
  agent: Agent,
  url: string,
  method: string,
  body: string | undefined,
  key: string | undefined,
): Promise<{ status: number; text: string }> {
  const headers = {
    ...(body !== undefined && {
      'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
    }),
    ...(key !== undefined && { 'idempotency-key': key }),
  };
  const sent = request(url, { agent, method, headers });
  const timer = setTimeout(() => sent.destroy(new Error('no reply')), answerTimeoutMs);
  try {
    sent.end(body);
    const [response]: IncomingMessage[] = await once(sent, 'response');
    sent.on('error', () => {});
    if (response === undefined) throw new Error('no response');
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) text += chunk;
    return { status: response.statusCode ?? 0, text };
  } finally {
    clearTimeout(timer);
  }
}
