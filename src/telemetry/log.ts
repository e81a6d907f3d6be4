import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import type { FailureEvent, ListeningEvent, Observe, RefusedEvent, ServiceEvent } from './events.ts';

export type LogFormat = 'json' | 'pretty' | 'off';

/** The output for lines, such as `process.stdout`. */
export interface LineSink {
  /** Calls `done` when the text has been written, or with the reason why it was not. */
  write(text: string, done: (error?: Error | null) => void): unknown;
  readonly writableLength: number;
}

export interface Log {
  readonly observe: Observe;
  /** The number of lines that were lost so far. */
  lost(): number;
  /** Writes all waiting lines at once; for a process that is about to crash. */
  flush(): void;
  /** Writes the waiting lines, and the number of lines that were dropped. */
  end(): Promise<void>;
}

// One write for each line would cost more than the request that the line reports.
const flushAfterMs = 20;
// A pipe accepts 4,096 bytes in one atomic write (PIPE_BUF), so lines of several processes mix only if one is longer. The
// rest is for a line about dropped lines.
const maxBatchBytes = 4_000;
// When the reader stops reading, lines beyond about 4 MiB are dropped.
const maxBatches = 1_024;
// How long to wait at the exit for a slow reader to accept the last lines.
const endTimeoutMs = 2_000;
// Refusals with one status are alike, but each failure may have another cause.
const [refusalsPerSecond, failuresPerSecond] = [1, 20];
// For paths and causes. The second limit applies if the line would not fit into one atomic write.
const [maxFieldLength, shortFieldLength] = [2_048, 256];

type Line =
  | Exclude<ServiceEvent, ListeningEvent>
  | (ListeningEvent & { readonly version: string })
  | { readonly type: 'dropped'; readonly count: number };

/** Complete lines that are written together. */
interface Batch {
  text: string;
  bytes: number;
  lines: number;
}

/** An observer that prints one line for each event. `version` is that of the program. */
export function createLog(format: LogFormat, sink: LineSink, version: string): Log {
  if (format === 'off')
    return { observe: () => undefined, lost: () => 0, flush: () => undefined, end: async () => undefined };
  const toText = format === 'pretty' ? prettyText : jsonText;
  /** The batches that wait to be written. */
  const batches: Batch[] = [];
  let lost = 0;
  /** The number of lost lines that `dropped` lines have reported. */
  let reported = 0;
  /** Whether the last write failed. */
  let hasFailed = false;
  let timer: NodeJS.Timeout | undefined;
  let now = 0;
  let time = '';

  const toLine = (event: Line, count = 1, maxLength = maxFieldLength): string => {
    // All lines of the same millisecond use the same text of its time.
    if (now !== Date.now()) {
      now = Date.now();
      time = new Date(now).toISOString();
    }
    const line = `${toText(event, time, count, maxLength)}\n`;
    // Most lines are ASCII, with one byte a character. JSON does not escape the control characters from U+007F on. Of
    // these, only U+007F is ASCII, and it is harmless.
    return Buffer.byteLength(line) === line.length ? line : escapeControls(line);
  };
  const print = (event: Line, count?: number): void => {
    if (batches.length >= maxBatches) {
      lost += 1;
      return;
    }
    let text = toLine(event, count);
    let bytes = Buffer.byteLength(text);
    if (bytes > maxBatchBytes) {
      text = toLine(event, count, shortFieldLength);
      bytes = Buffer.byteLength(text);
    }
    const last = batches.at(-1);
    if (last !== undefined && last.bytes + bytes <= maxBatchBytes) {
      last.text += text;
      last.bytes += bytes;
      last.lines += 1;
    } else batches.push({ text, bytes, lines: 1 });
    timer ??= setTimeout(write, flushAfterMs);
  };
  /** Writes a batch after a line about the lines that were lost since the last such line. */
  const send = ({ text, lines }: Batch): void => {
    const count = lost - reported;
    reported = lost;
    const report = count > 0 ? toLine({ type: 'dropped', count }) : '';
    // A full disk may have accepted the beginning of a line.
    const start = hasFailed ? '\n' : '';
    sink.write(`${start}${report}${text}`, (error) => {
      hasFailed = Boolean(error);
      if (hasFailed) {
        lost += lines;
        reported -= count;
      }
      write();
    });
  };
  const write = (): void => {
    clearTimeout(timer);
    timer = undefined;
    // One batch at a time: a stream joins the texts it buffers into one write.
    while (sink.writableLength === 0) {
      const batch = batches.shift();
      if (batch === undefined) return;
      send(batch);
    }
  };
  const { printLimited, endSecond } = limitFloods(print);
  return {
    observe(event) {
      if (event.type === 'request') return print(event);
      if (event.type === 'refused' || event.type === 'failure') return printLimited(event);
      print(event.type === 'listening' ? { ...event, version } : event);
      // These events are rare, and an operator or a script often waits for them.
      write();
    },
    lost: () => lost,
    flush() {
      endSecond();
      for (const batch of batches.splice(0)) send(batch);
    },
    async end() {
      endSecond();
      const giveUpAt = performance.now() + endTimeoutMs;
      const waitForReader = async (): Promise<void> => {
        while (batches.length + sink.writableLength > 0 && performance.now() < giveUpAt) {
          await sleep(flushAfterMs);
          write();
        }
      };
      await waitForReader();
      for (const { lines } of batches.splice(0)) lost += lines;
      if (lost > reported) send({ text: '', bytes: 0, lines: 0 });
      await waitForReader();
    },
  };
}

/** Limits the lines for events of a kind. Floods of malformed connections must not hide events of another kind. */
function limitFloods(print: (event: Line, count?: number) => void) {
  /** The kinds of events in this second. */
  const floods = new Map<string, { readonly perSecond: number; taken: number; last?: Line }>();
  const endSecond = (): void => {
    for (const [kind, { perSecond, taken, last }] of floods) {
      if (last === undefined) floods.delete(kind);
      else {
        print(last, taken - perSecond);
        // The line just printed counts as the first of the next second.
        floods.set(kind, { perSecond, taken: 1 });
      }
    }
    if (floods.size > 0) setTimeout(endSecond, 1_000).unref();
  };
  /** Prints the first events of each second; the others become one line with a count when it ends. */
  const printLimited = (event: RefusedEvent | FailureEvent): void => {
    const [kind, perSecond] =
      event.type === 'refused' ? [`${event.status}`, refusalsPerSecond] : [event.where, failuresPerSecond];
    if (floods.size === 0) setTimeout(endSecond, 1_000).unref();
    const flood = floods.get(kind) ?? { perSecond, taken: 0 };
    floods.set(kind, flood);
    flood.taken += 1;
    if (flood.taken <= perSecond) print(event);
    else flood.last = event;
  };
  return { printLimited, endSecond };
}

function jsonText(event: Line, time: string, count: number, maxLength: number): string {
  if (event.type === 'request') {
    const { face, id, method, path, status, durationMs, route, traceparent = '', key } = event;
    const rounded = Math.round(durationMs * 1_000) / 1_000;
    // Formatted by hand for speed. Only `method`, `path` and `traceparent` are text of the client and need escaping.
    return (
      `{"time":"${time}","event":"request","face":"${face}","id":"${id}","method":${JSON.stringify(method)}` +
      `,"path":${JSON.stringify(clip(path, maxLength))},"status":${status},"durationMs":${rounded}` +
      (route === undefined ? '' : `,"route":"${route}"`) +
      (traceparent === '' ? '' : `,"traceparent":${JSON.stringify(clip(traceparent, maxLength))}`) +
      (key === undefined ? '}' : `,"key":"${key}"}`)
    );
  }
  const { type, ...fields } = event;
  const cause = 'cause' in fields && { cause: causeText(fields.cause, maxLength) };
  return JSON.stringify({ time, event: type, ...fields, ...cause, ...(count > 1 && { count }) });
}

// Paths of gRPC may contain control characters above 0x7f, and causes any. Some terminals obey them.
const controls = /(?!\n)\p{Cc}/gu;

function escapeControls(text: string): string {
  return text.replace(controls, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function prettyText(event: Line, time: string, count: number, maxLength: number): string {
  const text = escapeControls(sentence(event, maxLength));
  return `${time.slice(11, 23)} ${text}${count > 1 ? ` (${count} times)` : ''}`;
}

function sentence(event: Line, maxLength: number): string {
  switch (event.type) {
    case 'listening': {
      const grpc = event.grpc === undefined ? '' : ` and gRPC on ${event.grpc}`;
      const files = event.files === undefined ? '' : `, ${event.files} static files`;
      return `listening on ${event.http}${grpc}${files}, version ${event.version}`;
    }
    case 'request': {
      const { face, id, method, path, status, durationMs } = event;
      return `${status} ${face === 'http' ? method : 'gRPC'} ${clip(path, maxLength)} ${durationMs.toFixed(1)} ms ${id}`;
    }
    case 'refused':
      return `${event.status} refused: ${event.reason}`;
    case 'failure': {
      const request = event.requestId === undefined ? '' : ` (${event.requestId})`;
      return `failure in ${event.where}${request}: ${causeText(event.cause, maxLength)}`;
    }
    case 'created':
      return `created ${event.path}, which has no records yet`;
    case 'warning':
      return `warning: ${event.message}`;
    case 'dropped':
      return `${event.count} lines dropped: they could not be written, or the reader was too slow`;
    default:
      return event.type;
  }
}

function causeText(cause: unknown, maxLength: number): string {
  return clip(typeof cause === 'string' ? cause : inspect(cause, { depth: 3 }), maxLength);
}

function clip(text: string, maxLength: number): string {
  // Half of a surrogate pair would make a line that some parsers of JSON reject.
  return text.length > maxLength ? `${text.slice(0, maxLength).toWellFormed()}…` : text;
}
