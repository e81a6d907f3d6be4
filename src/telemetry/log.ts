import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import type { Observe, ServiceEvent } from './events.ts';

export type LogFormat = 'json' | 'pretty' | 'off';

/** The output for lines, such as `process.stdout`. */
export interface LineSink {
  /** Calls `done` when the text has been written. */
  write(text: string, done: () => void): unknown;
  /** The number of buffered bytes. */
  readonly writableLength: number;
}

export interface Log {
  readonly observe: Observe;
  /** Writes all waiting lines at once; for a process that is about to crash. */
  flush(): void;
  /** Writes the waiting lines, and the number of lines that were dropped because the sink was slow. */
  end(): Promise<void>;
}

// One write for each line would cost more than the request that the line reports.
const flushAfterMs = 20;
const maxWaiting = 64;
// A pipe accepts this much in one atomic write (PIPE_BUF), so lines of several processes never mix.
const maxWriteBytes = 4_096;
// How long to wait at the exit for a slow reader to accept the last lines.
const endTimeoutMs = 2_000;
// When the reader stops reading, further lines are dropped.
const maxWaitingCharacters = 4 * 1024 * 1024;
// A path can be as long as a request head, and a cause can be nested without end.
const maxFieldLength = 2_048;
/** Lines per second; further events are only counted. Malformed connections and lost databases cause floods. */
const linesPerSecond = { refused: 1, failure: 20 };

type Line = ServiceEvent | { readonly type: 'dropped'; readonly count: number };

/** An observer that prints one line for each event. */
export function createLog(format: LogFormat, sink: LineSink): Log {
  if (format === 'off')
    return { observe: () => undefined, flush: () => undefined, end: async () => undefined };
  const toText = format === 'pretty' ? prettyText : jsonText;
  const waiting: string[] = [];
  let waitingCharacters = 0;
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;
  let now = 0;
  let time = '';

  const add = (event: Line, count = 1): void => {
    // The lines of a millisecond share its text.
    if (now !== Date.now()) {
      now = Date.now();
      time = new Date(now).toISOString();
    }
    const line = `${toText(event, time, count)}\n`;
    waitingCharacters += line.length;
    waiting.push(line);
  };
  const print = (event: ServiceEvent, count?: number): void => {
    if (waitingCharacters >= maxWaitingCharacters) {
      dropped += 1;
      return;
    }
    if (dropped > 0) add({ type: 'dropped', count: dropped });
    dropped = 0;
    add(event, count);
    if (waiting.length >= maxWaiting) write();
    else timer ??= setTimeout(write, flushAfterMs).unref();
  };
  /** The next lines that fit into one write. */
  const takeText = (): string => {
    let bytes = 0;
    const end = waiting.findIndex((line) => {
      bytes += Buffer.byteLength(line);
      return bytes > maxWriteBytes;
    });
    const text = waiting.splice(0, end === -1 ? waiting.length : Math.max(end, 1)).join('');
    waitingCharacters -= text.length;
    return text;
  };
  const write = (): void => {
    clearTimeout(timer);
    timer = undefined;
    // One text at a time: a stream joins the texts it buffers into one write.
    while (waiting.length > 0 && sink.writableLength === 0) sink.write(takeText(), write);
  };
  const limits = {
    refused: limitRate(linesPerSecond.refused, print),
    failure: limitRate(linesPerSecond.failure, print),
  };
  const endLimits = (): void => {
    for (const limit of Object.values(limits)) limit.endSecond();
    write();
  };
  return {
    observe(event) {
      if (event.type === 'request') return print(event);
      if (event.type === 'refused' || event.type === 'failure') return limits[event.type].take(event);
      print(event);
      // These events are rare, and an operator or a script often waits for them.
      write();
    },
    flush() {
      endLimits();
      while (waiting.length > 0) sink.write(takeText(), () => undefined);
    },
    async end() {
      endLimits();
      const giveUpAt = performance.now() + endTimeoutMs;
      while (waiting.length > 0 && performance.now() < giveUpAt) {
        await sleep(flushAfterMs);
        write();
      }
      while (waiting.length > 0) dropped += takeText().split('\n').length - 1;
      if (dropped === 0) return;
      add({ type: 'dropped', count: dropped });
      dropped = 0;
      sink.write(takeText(), () => undefined);
    },
  };
}

/** Prints the first events of each second; the others become one line with a count when it ends. */
function limitRate(perSecond: number, print: (event: ServiceEvent, count?: number) => void) {
  let taken = 0;
  let last: ServiceEvent | undefined;
  let timer: NodeJS.Timeout | undefined;
  const endSecond = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const withheld = taken - perSecond;
    taken = 0;
    if (last === undefined) return;
    print(last, withheld);
    last = undefined;
    // The line that sums up this second counts for the next one.
    taken = 1;
    timer = setTimeout(endSecond, 1_000).unref();
  };
  const take = (event: ServiceEvent): void => {
    timer ??= setTimeout(endSecond, 1_000).unref();
    taken += 1;
    if (taken <= perSecond) print(event);
    else last = event;
  };
  return { take, endSecond };
}

function jsonText(event: Line, time: string, count: number): string {
  if (event.type === 'request') {
    const { face, id, method, path, status, durationMs, route, traceparent = '', key } = event;
    const rounded = Math.round(durationMs * 1_000) / 1_000;
    // Formatted by hand for speed. Only `method`, `path` and `traceparent` are text of the client and need escaping.
    return (
      `{"time":"${time}","event":"request","face":"${face}","id":"${id}","method":${JSON.stringify(method)}` +
      `,"path":${JSON.stringify(clip(path))},"status":${status},"durationMs":${rounded}` +
      (route === undefined ? '' : `,"route":"${route}"`) +
      (traceparent === '' ? '' : `,"traceparent":${JSON.stringify(clip(traceparent))}`) +
      (key === undefined ? '}' : `,"key":"${key}"}`)
    );
  }
  const { type, ...fields } = event;
  const cause = 'cause' in fields && { cause: causeText(fields.cause) };
  return JSON.stringify({ time, event: type, ...fields, ...cause, ...(count > 1 && { count }) });
}

function prettyText(event: Line, time: string, count: number): string {
  return `${time.slice(11, 23)} ${sentence(event)}${count > 1 ? ` (${count} times)` : ''}`;
}

function sentence(event: Line): string {
  switch (event.type) {
    case 'listening':
      return [
        `listening on ${event.http}`,
        event.grpc === undefined ? '' : ` and gRPC on ${event.grpc}`,
        event.files === undefined ? '' : `, ${event.files} static files`,
      ].join('');
    case 'request': {
      const { face, id, method, path, status, durationMs } = event;
      return `${status} ${face === 'http' ? method : 'gRPC'} ${clip(path)} ${durationMs.toFixed(1)} ms ${id}`;
    }
    case 'refused':
      return `${event.status} refused: ${event.reason}`;
    case 'failure': {
      const request = event.requestId === undefined ? '' : ` (${event.requestId})`;
      return `failure in ${event.where}${request}: ${causeText(event.cause)}`;
    }
    case 'warning':
      return `warning: ${event.message}`;
    case 'dropped':
      return `${event.count} lines dropped: the reader was too slow`;
    default:
      return event.type;
  }
}

function causeText(cause: unknown): string {
  return clip(typeof cause === 'string' ? cause : inspect(cause, { depth: 3 }));
}

function clip(text: string): string {
  return text.length > maxFieldLength ? `${text.slice(0, maxFieldLength)}…` : text;
}
