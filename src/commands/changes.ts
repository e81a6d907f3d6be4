import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseChangePosition, parseChangeQuery } from '../domain/change.ts';
import { DomainError } from '../domain/errors.ts';
import {
  type Arguments,
  type Command,
  describeError,
  onStop,
  UsageError,
  usageOf,
  write,
} from './command-line.ts';

const help = `usage: users-service changes --url URL [--after N] [--type LIST] [--user ID] [--state FILE]

Prints each change of a running service as a line of JSON (CloudEvents 1.0), until a signal stops it. Connects
again after each failure, and continues where it was.

  --url URL     the address of the service, such as http://127.0.0.1:3000
  --after N     start after this position [before the oldest change that is kept]
  --type LIST   only these types, such as user.created,user.deleted
  --user ID     only the user with this id and its posts
  --state FILE  store the position of the last printed line here, and continue there at the next start
  API_KEY       in the environment: the key to send, if the service needs one

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage, 4 the position is no longer kept.
`;

const goneCode = 4;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
// The service sends at least a comment every 15 seconds. After three times this interval, the connection is lost.
const silenceMs = 45_000;

/** The stream to follow, and the position of the last printed change. */
interface Following {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** The file that stores the position. */
  readonly state: string | undefined;
  position: string | undefined;
  /** How long to wait before the next attempt. */
  pauseMs: number;
}

/** A rejection, with the exit code of the command; 0 if a retry may succeed. */
class Refusal extends Error {
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
    const following = await readFollowing(flags, context.env['API_KEY']);
    const stop = new AbortController();
    const { signal } = stop;
    onStop(context, (code) => (signal.aborted ? context.exit(code) : stop.abort()));
    while (!signal.aborted) {
      try {
        await follow(following, context.stdout, signal);
      } catch (error) {
        if (signal.aborted) break;
        // `fetch` fails with a `TypeError`, and its signal with a `DOMException`.
        const isKnown = [Refusal, TypeError, DOMException].some((Kind) => error instanceof Kind);
        if (!isKnown) throw error;
        context.stderr.write(`users-service: ${describeError(error)}\n`);
        if (error instanceof Refusal && error.code > 0) return error.code;
        following.pauseMs = Math.min(following.pauseMs * 2, longestPauseMs);
      }
      // Randomized, so that many followers do not connect again at once.
      const pauseMs = following.pauseMs * (0.5 + Math.random() / 2);
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    }
    return 0;
  },
};

async function readFollowing(flags: Arguments['flags'], key: string | undefined): Promise<Following> {
  const { url: base, after, type, user, state } = flags;
  if (base === undefined) throw usageOf(help);
  const url = URL.parse(`${base.replace(/\/$/, '')}/changes`);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError('--url must be the address of a service, such as http://127.0.0.1:3000');
  }
  for (const [name, value] of Object.entries({ type, user })) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  try {
    parseChangeQuery([...url.searchParams, ...(after === undefined ? [] : [['after', after] as const])]);
  } catch (error) {
    throw error instanceof DomainError ? new UsageError(`--${error.message}`) : error;
  }
  const headers = { accept: 'text/event-stream', ...(key && { 'x-api-key': key }) };
  const kept = state === undefined ? undefined : await readState(state);
  return { url, headers, state, position: kept ?? after, pauseMs: firstPauseMs };
}

async function readState(file: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, 'utf8');
    return String(parseChangePosition(file, text.trim()));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    if (!(error instanceof DomainError)) throw error;
    throw new UsageError(`--state must be a file that this command has written, not ${file}`);
  }
}

// A crash leaves the complete old or new file.
async function writeState(file: string, position: string): Promise<void> {
  const temporary = `${file}.new`;
  await writeFile(temporary, `${position}\n`, { flush: true });
  await rename(temporary, file);
}

/** Prints changes until the service ends the stream. */
async function follow(following: Following, stdout: Writable, signal: AbortSignal): Promise<void> {
  const { url, headers, position } = following;
  const silence = new AbortController();
  const timer = setTimeout(
    () => silence.abort(new DOMException('nothing came for 45 s', 'TimeoutError')),
    silenceMs,
  );
  try {
    const response = await fetch(url, {
      headers: { ...headers, ...(position !== undefined && { 'last-event-id': position }) },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    await checkResponse(response);
    following.pauseMs = firstPauseMs;
    let rest = '';
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      timer.refresh();
      const text = rest + chunk;
      const end = text.lastIndexOf('\n\n');
      rest = text.slice(end + 2);
      if (end >= 0) await print(text.slice(0, end), following, stdout);
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
  // Retry only if the same request may succeed later.
  const code = status === 410 ? goneCode : status < 500 && status !== 429 ? 1 : 0;
  throw new Refusal(`${response.url} answers ${status}: ${reason}`, code);
}

/** Prints the changes in a text of complete events, and stores the position of the last one. */
async function print(text: string, following: Following, stdout: Writable): Promise<void> {
  const lines: string[] = [];
  let gone: string | undefined;
  for (const block of text.split('\n\n')) {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
    const data = field('data');
    if (field('event') === 'gone') gone = data;
    else if (data !== undefined) lines.push(`${data}\n`);
    following.position = field('id') ?? following.position;
  }
  const { state, position } = following;
  if (lines.length > 0) await write(stdout, lines.join(''));
  if (state !== undefined && position !== undefined) await writeState(state, position);
  if (gone !== undefined) throw new Refusal(`the position is no longer kept: ${gone}`, goneCode);
}
