import { readFile, rename, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { secretPattern } from '../domain/access.ts';
import { parseChangePosition, parseChangeQuery } from '../domain/change.ts';
import { DomainError } from '../domain/errors.ts';
import { type Arguments, type Command, onStop, write } from './command-line.ts';
import { describeError, failedAt, UsageError, usageOf } from './errors.ts';

const help = `usage: users-service changes --url URL [options]

Prints each change of a running service as a line of JSON (CloudEvents 1.0),
until a signal stops it. After a lost connection, a 5xx status, 408 or 429 it
connects again, and continues where it was. Any other status ends it, and so
does a certificate that is not trusted.

  --url URL     the address of the service, such as http://127.0.0.1:3000
  --after N     print only the changes after this position [all that are kept]
  --type LIST   only these types, such as user.created,user.deleted
  --user ID     only the user with this id and its posts
  --state FILE  store here the position up to which all is printed, and continue
                there at the next start; overrides --after
  API_KEY       in the environment: the KEY to send, without its name and scopes

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage, 4 the position is no
longer kept.
`;

const goneCode = 4;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
// The service sends at least a comment every 15 seconds. After three times this interval, the connection is lost.
const silenceMs = 45_000;

// Codes of TLS after which another attempt would fail too: Node.js reads the authorities that it trusts only at its
// start. A certificate that has ended is not among them, because it may be renewed.
const lastingCodes = /^ERR_TLS_CERT_ALTNAME_INVALID$|SELF_SIGNED_CERT|^UNABLE_TO_/;

/** The fields of a server-sent event that this command uses. */
type Event = Readonly<Partial<Record<'id' | 'event' | 'data', string>>>;

export const changes: Command = {
  help,
  flags: ['url', 'after', 'type', 'user', 'state'],
  async run(context, { flags }) {
    const { state } = flags;
    const url = readUrl(flags);
    const key = context.env['API_KEY'];
    // The error of `fetch` for other characters would show the key.
    if (key && !secretPattern.test(key))
      throw new UsageError('API_KEY must be a key of visible ASCII characters');
    if (state === '') throw new UsageError('--state must be a path');
    // Takes precedence over `after` in the URL.
    let position = state === undefined ? undefined : await readState(state);
    let pauseMs = firstPauseMs;
    // At any moment: like a crash, this may repeat changes at the next start, but loses none.
    onStop(context, () => context.exit(0));
    for (;;) {
      try {
        const headers = { ...(key && { 'x-api-key': key }), ...(position && { 'last-event-id': position }) };
        for await (const events of follow(url, headers)) {
          pauseMs = firstPauseMs;
          const text = events.map(lineOf).join('');
          if (text !== '') await write(context.stdout, text, state !== undefined);
          // Only after they were printed, so that a crash loses none.
          position = events.findLast(({ id }) => id)?.id ?? position;
          if (state && position) await writeState(state, position);
          checkGone(events);
        }
      } catch (error) {
        const message = `users-service: ${describeError(error)}`;
        if (error instanceof DomainError && error.kind === 'gone') {
          context.stderr.write(`${message}\n`);
          return goneCode;
        }
        if (!isTemporary(error, url)) throw error;
        // A port of the service with TLS closes a connection without TLS. So may a service that stops.
        const isClosed = url.protocol === 'http:' && message.endsWith(' fetch failed: other side closed');
        const hint = isClosed ? '; if its port uses TLS, use https:' : '';
        context.stderr.write(`${message}${hint}; connecting again\n`);
        pauseMs = Math.min(pauseMs * 2, longestPauseMs);
      }
      // Randomized, so that many followers do not connect again at once.
      await sleep(pauseMs * (0.5 + Math.random() / 2));
    }
  },
};

/** A change as a line of JSON; empty for another event. */
const lineOf = ({ data, event }: Event): string => (data && event !== 'gone' ? `${data}\n` : '');

function checkGone(events: readonly Event[]): void {
  const gone = events.find(({ event }) => event === 'gone');
  if (gone) throw new DomainError('gone', `the position is no longer kept: ${reasonOf(gone.data)}`);
}

/** Whether another attempt may succeed. Throws a `UsageError` if the URL is the reason. */
function isTemporary(error: unknown, url: URL): boolean {
  // Of a status that may change, or of the signal for the silence.
  if (error instanceof DomainError || error instanceof DOMException) return true;
  // `fetch` fails with a `TypeError` that has a cause.
  if (!(error instanceof TypeError && 'cause' in error)) return false;
  if (String(error.cause) === 'Error: bad port')
    throw new UsageError(`--url must have another port: the Fetch standard blocks port ${url.port}`);
  const code = String(Object(error.cause).code);
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    throw new UsageError('--url must begin with http:, because its port does not use TLS');
  return !lastingCodes.test(code);
}

function readUrl({ url: base, after, type, user }: Arguments['flags']): URL {
  if (base === undefined) throw usageOf(help);
  const url = URL.parse(`${base.replace(/\/$/, '')}/changes`);
  if (url === null || !/^https?:/.test(url.protocol))
    throw new UsageError('--url must be the address of a service, such as http://127.0.0.1:3000');
  if (url.username || url.password || /[?#]/.test(base))
    throw new UsageError('--url must have no user, password, query or fragment');
  for (const [name, value] of Object.entries({ after, type, user })) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  try {
    parseChangeQuery([...url.searchParams]);
  } catch (error) {
    throw error instanceof DomainError ? new UsageError(`--${error.message}`) : error;
  }
  return url;
}

async function readState(file: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, 'utf8');
    return String(parseChangePosition(file, text.trim()));
  } catch (error) {
    const code = Error.isError(error) && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return undefined;
    const reason = code === undefined ? '' : ` (${code})`;
    throw new UsageError(`--state must be a file that this command has written, not ${file}${reason}`);
  }
}

// A crash leaves the complete old or new file.
async function writeState(file: string, position: string): Promise<void> {
  const temporary = `${file}.new`;
  await writeFile(temporary, `${position}\n`, { flush: true }).catch(failedAt(temporary));
  await rename(temporary, file);
}

/** Yields the events of a stream until the service ends it. Events that arrive together are one array. */
async function* follow(url: URL, given: object): AsyncGenerator<Event[], void> {
  const silence = new AbortController();
  const reason = new DOMException('nothing came for 45 s', 'TimeoutError');
  using timer = setTimeout(() => silence.abort(reason), silenceMs);
  const response = await fetch(url, {
    headers: { accept: 'text/event-stream', ...given },
    // Following a redirect would send the key to another server.
    redirect: 'manual',
    signal: silence.signal,
  });
  await checkResponse(response);
  let rest = '';
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop() ?? '';
    timer.refresh();
    // A line is `name: value`; that of a comment has no name.
    yield blocks.map((block) =>
      Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s, 2))),
    );
  }
}

/** Throws an `unavailable` error if a retry may succeed, and a `gone` error if the position is no longer kept. */
async function checkResponse(response: Response): Promise<void> {
  const { status, headers } = response;
  if (status === 200 && /^text\/event-stream *(;|$)/i.test(headers.get('content-type') ?? '')) return;
  const reason = reasonOf(await response.text()) ?? 'not a stream of changes';
  const message = `${response.url} answers ${status}: ${reason}`;
  if (status === 410) throw new DomainError('gone', message);
  if (status >= 500 || status === 408 || status === 429) throw new DomainError('unavailable', message);
  throw new Error(message);
}

function reasonOf(body = ''): string | undefined {
  return /^\{"error":"(.*)"\}$/.exec(body)?.[1];
}
