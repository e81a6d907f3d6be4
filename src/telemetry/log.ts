import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import type { Observe, ServiceEvent } from './events.ts';

export type LogFormat = 'json' | 'pretty' | 'off';

/** Where lines go; `process.stdout` is one. */
export interface LineSink {
  /** Calls `done` when the text has been taken. */
  write(text: string, done: () => void): unknown;
  /** How much has been written but not taken yet. */
  readonly writableLength?: number;
}

export interface Log {
  readonly observe: Observe;
  /** Writes all waiting lines at once; for a process that is about to crash. */
  flush(): void;
  /** Writes the waiting lines as fast as the sink takes them, and counts those it does not take in time. */
  end(): Promise<void>;
}

// A write for each line would cost more than the request it reports.
const flushAfterMs = 20;
const maxWaiting = 64;
// A pipe takes this much in one piece (PIPE_BUF), so lines of several processes never mix.
const maxWriteBytes = 4_096;
// A slow reader gets the last lines; a reader that is gone delays the exit by this much at most.
const endTimeoutMs = 2_000;
// A reader that stops reading costs lines, not memory.
const maxUnreadBytes = 4 * 1024 * 1024;
// A path can be as long as a request head, and a cause can be nested without end.
const maxFieldLength = 2_048;
/** Lines a second; more are counted. Malformed connections and lost databases come in floods. */
const linesPerSecond = { refused: 1, failure: 20 };

type Print = (event: ServiceEvent, count?: number) => void;

interface Entry {
  readonly event: ServiceEvent;
  /** How many events this one stands for. */
  readonly count: number;
  readonly time: string;
}

/** An observer that prints one line for each event. */
export function createLog(format: LogFormat, sink: LineSink): Log {
  if (format === 'off')
    return { observe: () => undefined, flush: () => undefined, end: async () => undefined };
  const toLine = format === 'pretty' ? prettyLine : jsonLine;
  const unread: string[] = [];
  let waiting: Entry[] = [];
  let timer: NodeJS.Timeout | undefined;
  let dropped = 0;

  // The next text only when the last one has been taken: a stream joins what it buffers into one write.
  const pump = (): void => {
    while (unread.length > 0 && (sink.writableLength ?? 0) === 0) sink.write(unread.shift() ?? '', pump);
  };
  const write = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const lines = waiting.map((entry) => `${toLine(entry)}\n`);
    waiting = [];
    if (unread.length * maxWriteBytes >= maxUnreadBytes) {
      dropped += lines.length;
    } else {
      if (dropped > 0) unread.push(droppedLine(format, dropped));
      dropped = 0;
      unread.push(...joinLines(lines));
    }
    pump();
  };
  const print: Print = (event, count = 1) => {
    waiting.push({ event, count, time: new Date().toISOString() });
    if (waiting.length >= maxWaiting) write();
    else timer ??= setTimeout(write, flushAfterMs).unref();
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
      // Rare, and often what an operator or a script is waiting for.
      write();
    },
    flush() {
      endLimits();
      for (const text of unread.splice(0)) sink.write(text, () => undefined);
    },
    async end() {
      endLimits();
      const giveUpAt = performance.now() + endTimeoutMs;
      while (unread.length > 0 && performance.now() < giveUpAt) {
        await sleep(flushAfterMs);
        pump();
      }
      for (const text of unread.splice(0)) dropped += text.split('\n').length - 1;
      if (dropped > 0) sink.write(droppedLine(format, dropped), () => undefined);
      dropped = 0;
    },
  };
}

/** Prints the first events of each second; the others become one line with a count when it ends. */
function limitRate(perSecond: number, print: Print) {
  let printed = 0;
  let withheld = 0;
  let last: ServiceEvent | undefined;
  let timer: NodeJS.Timeout | undefined;
  const endSecond = (): void => {
    clearTimeout(timer);
    timer = undefined;
    printed = 0;
    if (last === undefined) return;
    print(last, withheld);
    // The line that sums up this second counts for the next one.
    printed = 1;
    withheld = 0;
    last = undefined;
    timer = setTimeout(endSecond, 1_000).unref();
  };
  const take = (event: ServiceEvent): void => {
    timer ??= setTimeout(endSecond, 1_000).unref();
    if (printed < perSecond) {
      printed += 1;
      print(event);
    } else {
      withheld += 1;
      last = event;
    }
  };
  return { take, endSecond };
}

function jsonLine({ event, count, time }: Entry): string {
  if (event.type === 'request') {
    const { face, id, method, path, status, durationMs, route, traceparent, key } = event;
    const rounded = Math.round(durationMs * 1_000) / 1_000;
    const call = { face, id, method, path: clip(path), status, durationMs: rounded, route };
    return JSON.stringify({
      time,
      event: 'request',
      ...call,
      traceparent: traceparent && clip(traceparent),
      key,
    });
  }
  const { type, ...fields } = event;
  const cause = 'cause' in fields && { cause: causeText(fields.cause) };
  return JSON.stringify({ time, event: type, ...fields, ...cause, ...(count > 1 && { count }) });
}

function prettyLine({ event, count, time }: Entry): string {
  const at = time.slice(11, 23);
  const times = count > 1 ? ` (${count} times)` : '';
  switch (event.type) {
    case 'listening': {
      const grpc = event.grpc === undefined ? '' : ` and gRPC on ${event.grpc}`;
      return `${at} listening on ${event.http}${grpc}`;
    }
    case 'request': {
      const call = `${event.face === 'http' ? event.method : 'gRPC'} ${clip(event.path)}`;
      return `${at} ${event.status} ${call} ${event.durationMs.toFixed(1)} ms ${event.id}`;
    }
    case 'refused':
      return `${at} ${event.status} refused: ${event.reason}${times}`;
    case 'failure': {
      const request = event.requestId === undefined ? '' : ` (${event.requestId})`;
      return `${at} failure in ${event.where}${request}: ${causeText(event.cause)}${times}`;
    }
    case 'warning':
      return `${at} warning: ${event.message}`;
    default:
      return `${at} ${event.type}`;
  }
}

function droppedLine(format: LogFormat, count: number): string {
  const time = new Date().toISOString();
  if (format === 'pretty') return `${time.slice(11, 23)} ${count} lines dropped: the reader was too slow\n`;
  return `${JSON.stringify({ time, event: 'dropped', count })}\n`;
}

/** Joins lines into texts of at most `maxWriteBytes`. */
function joinLines(lines: readonly string[]): string[] {
  const texts: string[] = [];
  let bytes = maxWriteBytes;
  for (const line of lines) {
    const length = Buffer.byteLength(line);
    bytes += length;
    if (bytes > maxWriteBytes) {
      texts.push(line);
      bytes = length;
    } else texts.push(texts.pop() + line);
  }
  return texts;
}

function causeText(cause: unknown): string {
  return clip(typeof cause === 'string' ? cause : inspect(cause, { depth: 3 }));
}

function clip(text: string): string {
  return text.length > maxFieldLength ? `${text.slice(0, maxFieldLength)}…` : text;
}
