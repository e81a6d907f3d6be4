import { open, readFile, rename } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseChangePosition, parseChangeQuery } from '../domain/change.ts';
import { DomainError } from '../domain/errors.ts';
import {
  type Arguments,
  type Command,
  type CommandContext,
  describeError,
  onStop,
  UsageError,
  usageOf,
  write,
} from './command-line.ts';

const help = `usage: users-service changes --url URL [--after N] [--type LIST] [--user ID] [--state FILE]

Prints each change of a running service as a line of JSON (CloudEvents 1.0), and follows until a signal
stops it. Connects again after each failure, and continues where it was.

  --url URL     the address of the service, such as http://127.0.0.1:3000
  --after N     begin after this position [the oldest change that is kept]
  --type LIST   only these types, such as user.created,user.deleted
  --user ID     only the user with this id and its posts
  --state FILE  keep the position of the last printed line here, and begin there the next time
  API_KEY       in the environment: the key to send, if the service needs one

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage, 4 the position is no longer kept.
`;

const goneCode = 4;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
// The service sends at least a comment every 15 seconds. After three times this interval, the connection is lost.
const silenceMs = 45_000;

/** The state of a follower, and the service that it follows. */
interface Following {
  readonly url: URL;
  readonly headers: Record<string, string>;
  readonly stdout: Writable;
  readonly state: string | undefined;
  readonly signal: AbortSignal;
  position: string | undefined;
  /** How long to wait before the next attempt. */
  pauseMs: number;
}

/** A response that ends following, because a retry would get the same response. */
class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: number;

  constructor(message: string, code: number) {
    super(message);
    this.code = code;
  }
}

/** Prints the changes of a service as they happen. */
export const changes: Command = {
  help,
  flags: ['url', 'after', 'type', 'user', 'state'],
  async run(context, { flags }) {
    const stop = new AbortController();
    const following = await readFollowing(context, flags, stop.signal);
    onStop(context, (code) => (stop.signal.aborted ? context.exit(code) : stop.abort()));
    while (!stop.signal.aborted) {
      try {
        await follow(following);
      } catch (error) {
        if (stop.signal.aborted) break;
        if (!(error instanceof Refusal || error instanceof TypeError || isTimeout(error))) throw error;
        context.stderr.write(`users-service: ${describeError(error)}\n`);
        if (error instanceof Refusal && error.code > 0) return error.code;
        following.pauseMs = Math.min(following.pauseMs * 2, longestPauseMs);
      }
      // Randomized, so that many followers do not connect again at once.
      await sleep(following.pauseMs * (0.5 + Math.random() / 2), undefined, { signal: stop.signal }).catch(
        () => undefined,
      );
    }
    return 0;
  },
};

async function readFollowing(
  { env, stdout }: CommandContext,
  flags: Arguments['flags'],
  signal: AbortSignal,
): Promise<Following> {
  const { url: base, after, state } = flags;
  if (base === undefined) throw usageOf(help);
  const url = URL.parse(`${base.replace(/\/$/, '')}/changes`);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError('--url must be the address of a service, such as http://127.0.0.1:3000');
  }
  const query = (['after', 'type', 'user'] as const).flatMap((name) => {
    const value = flags[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  try {
    parseChangeQuery(query);
  } catch (error) {
    throw error instanceof DomainError ? new UsageError(`--${error.message}`) : error;
  }
  for (const [name, value] of query) if (name !== 'after') url.searchParams.set(name, value);
  const key = env['API_KEY'];
  const headers = { accept: 'text/event-stream', ...(key && { 'x-api-key': key }) };
  const kept = state === undefined ? undefined : await readState(state);
  return { url, headers, stdout, state, signal, position: kept ?? after, pauseMs: firstPauseMs };
}

async function readState(file: string): Promise<string | undefined> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return String(parseChangePosition(file, text.trim()));
  } catch {
    throw new UsageError(`--state must be a file that this command has written, not ${file}`);
  }
}

// A crash leaves the complete old or new file.
async function writeState(file: string, position: string): Promise<void> {
  const temporary = `${file}.new`;
  await using handle = await open(temporary, 'w');
  await handle.writeFile(`${position}\n`);
  await handle.datasync();
  await rename(temporary, file);
}

/** Prints changes until the service ends the stream. */
async function follow(following: Following): Promise<void> {
  const { url, signal } = following;
  const silence = new AbortController();
  const timer = setTimeout(
    () => silence.abort(new DOMException('nothing came for 45 s', 'TimeoutError')),
    silenceMs,
  );
  try {
    const headers = {
      ...following.headers,
      ...(following.position !== undefined && { 'last-event-id': following.position }),
    };
    const response = await fetch(url, { headers, signal: AbortSignal.any([signal, silence.signal]) });
    await checkResponse(response);
    following.pauseMs = firstPauseMs;
    let rest = '';
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      timer.refresh();
      const text = rest + chunk;
      const end = text.lastIndexOf('\n\n');
      rest = text.slice(end + 2);
      if (end >= 0) await print(text.slice(0, end), following);
    }
  } finally {
    clearTimeout(timer);
  }
}

async function checkResponse(response: Response): Promise<void> {
  const { status, headers } = response;
  const isStream = headers.get('content-type') === 'text/event-stream';
  if (status === 200 && isStream) return;
  const body = await response.text();
  const reason = /^\{"error":"(.*)"\}$/.exec(body)?.[1] ?? (isStream ? '' : 'not a stream of changes');
  // Retry only if the state of the service can change the response. The request stays the same.
  const code = status === 410 ? goneCode : status < 500 && status !== 429 ? 1 : 0;
  throw new Refusal(`${response.url} answers ${status}: ${reason}`, code);
}

/** Prints the changes in a text of whole events, and keeps the position after them. */
async function print(text: string, following: Following): Promise<void> {
  const lines: string[] = [];
  let gone: string | undefined;
  for (const block of text.split('\n\n')) {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
    const data = field('data');
    if (field('event') === 'gone') gone = data;
    else if (data !== undefined) lines.push(`${data}\n`);
    following.position = field('id') ?? following.position;
  }
  const { stdout, state, position } = following;
  if (lines.length > 0) await write(stdout, lines.join(''));
  if (state !== undefined && position !== undefined) await writeState(state, position);
  if (gone !== undefined) throw new Refusal(`the position is no longer kept: ${gone}`, goneCode);
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException;
}
