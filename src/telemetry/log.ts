import { setTimeout as sleep } from 'node:timers/promises';
import type { Observe, ServiceEvent } from './events.ts';
import { Flood } from './flood.ts';
import { droppedLine, jsonLine, prettyLine } from './log-line.ts';

export type LogFormat = 'json' | 'pretty' | 'off';

/** Where lines go; `process.stdout` is one. */
export interface LineSink {
  /** `done` may be called when the text has been taken. */
  write(text: string, done: () => void): unknown;
  /** How much of it nobody has taken yet. */
  readonly writableLength?: number;
}

export interface Log {
  readonly observe: Observe;
  /** Writes what is still waiting, at once and all of it; for a process that is about to be gone. */
  flush(): void;
  /** Writes what is still waiting as it is taken; what nobody takes in time is counted. */
  end(): Promise<void>;
}

// Lines wait this long for company: a write for each request costs more than the request.
const flushAfterMs = 20;
// They are formatted together, too: one by one between requests, each took three times as long.
const maxWaiting = 64;
// A pipe takes so much whole or not at all, so that lines of several processes never mix (PIPE_BUF).
const maxWriteBytes = 4_096;
// A slow reader gets the last lines too, one that is gone holds up nobody.
const endTimeoutMs = 2_000;
// A reader that has stopped reading costs lines, not memory.
const maxUnreadBytes = 4 * 1024 * 1024;
/** Lines a second; what comes beyond is counted. Malformed connections and lost databases come in floods. */
const linesPerSecond = { refused: 1, failure: 20 };

type Limited = keyof typeof linesPerSecond;

interface Entry {
  readonly event: ServiceEvent;
  readonly count: number;
  readonly time: number;
}

/** An observer that prints one line an event. */
export function createLog(format: LogFormat, sink: LineSink): Log {
  if (format === 'off')
    return { observe: () => undefined, flush: () => undefined, end: async () => undefined };
  const toLine = format === 'pretty' ? prettyLine : jsonLine;
  let waiting: Entry[] = [];
  let timer: NodeJS.Timeout | undefined;
  let dropped = 0;
  const unread: string[] = [];
  const floods = new Map<Limited, Flood>();

  // Only when the one before has been taken: a stream joins what it has to keep into one long write.
  const pump = (): void => {
    while (unread.length > 0 && (sink.writableLength ?? 0) === 0) sink.write(unread.shift() ?? '', pump);
  };
  const write = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const lines = waiting.map(({ event, count, time }) => `${toLine(event, count, time)}\n`);
    waiting = [];
    if (unread.length * maxWriteBytes >= maxUnreadBytes) {
      dropped += lines.length;
    } else {
      if (dropped > 0) unread.push(`${droppedLine(format, dropped)}\n`);
      dropped = 0;
      unread.push(...joined(lines));
    }
    pump();
  };
  const print = (event: ServiceEvent, count = 1): void => {
    waiting.push({ event, count, time: Date.now() });
    if (waiting.length >= maxWaiting) write();
    else timer ??= setTimeout(write, flushAfterMs).unref();
  };
  const printLimited = (event: ServiceEvent & { type: Limited }): void => {
    let flood = floods.get(event.type);
    if (flood === undefined) {
      flood = new Flood(linesPerSecond[event.type], print);
      floods.set(event.type, flood);
    }
    flood.take(event);
  };
  const observe: Observe = (event) => {
    if (event.type === 'request') return print(event);
    if (event.type === 'refused' || event.type === 'failure') return printLimited(event);
    print(event);
    // The rare ones are what somebody is waiting for.
    write();
  };
  const flush = (): void => {
    for (const flood of floods.values()) flood.end();
    write();
    // There is no later any more.
    for (const text of unread.splice(0)) sink.write(text, () => undefined);
  };
  const end = async (): Promise<void> => {
    for (const flood of floods.values()) flood.end();
    write();
    const giveUpAt = performance.now() + endTimeoutMs;
    while (unread.length > 0 && performance.now() < giveUpAt) {
      await sleep(flushAfterMs);
      pump();
    }
    // All at once they would be torn between those of other processes.
    for (const text of unread.splice(0)) dropped += text.split('\n').length - 1;
    if (dropped > 0) sink.write(`${droppedLine(format, dropped)}\n`, () => undefined);
    dropped = 0;
  };
  return { observe, flush, end };
}

/** Puts lines together as far as one write may be long. */
function joined(lines: readonly string[]): string[] {
  const texts: string[] = [];
  let text = '';
  let bytes = 0;
  for (const line of lines) {
    const length = Buffer.byteLength(line);
    if (bytes + length > maxWriteBytes && text !== '') {
      texts.push(text);
      text = '';
      bytes = 0;
    }
    text += line;
    bytes += length;
  }
  return text === '' ? texts : [...texts, text];
}
