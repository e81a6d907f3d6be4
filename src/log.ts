import { inspect } from 'node:util';
import type { Observe, ServiceEvent } from './observer.ts';

export type LogFormat = 'json' | 'pretty' | 'off';

/** Where lines go; `process.stdout` is one. */
export interface LineSink {
  write(text: string): unknown;
}

export interface Log {
  readonly observe: Observe;
  /** Writes what is still waiting; for the end of the process. */
  flush(): void;
}

// Lines wait this long for company: a write for each request costs more than the request.
const flushAfterMs = 20;
// A flood of malformed connections is one line a second, with their number, not a full disk.
const refusedEveryMs = 1_000;

/** An observer that prints one line an event. */
export function createLog(format: LogFormat, sink: LineSink): Log {
  let waiting = '';
  let timer: NodeJS.Timeout | undefined;
  let refused = 0;
  let refusedAt = Number.NEGATIVE_INFINITY;

  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (waiting !== '') sink.write(waiting);
    waiting = '';
  };
  const print = (event: ServiceEvent, more: object = {}): void => {
    waiting += `${format === 'pretty' ? prettyLine(event) : jsonLine(event, more)}\n`;
    timer ??= setTimeout(flush, flushAfterMs).unref();
  };
  const observe: Observe = (event) => {
    if (event.type === 'refused') {
      refused += 1;
      const now = performance.now();
      if (now - refusedAt < refusedEveryMs) return;
      print(event, { count: refused });
      refusedAt = now;
      refused = 0;
    } else {
      print(event);
      // The rare ones are what somebody is waiting for.
      if (event.type !== 'request') flush();
    }
  };
  if (format === 'off') return { observe: () => undefined, flush: () => undefined };
  return { observe, flush };
}

function jsonLine({ type, ...fields }: ServiceEvent, more: object): string {
  const cause = 'cause' in fields ? { cause: causeText(fields.cause) } : {};
  return JSON.stringify({ time: new Date().toISOString(), event: type, ...fields, ...cause, ...more });
}

function prettyLine(event: ServiceEvent): string {
  const time = new Date().toISOString().slice(11, 23);
  switch (event.type) {
    case 'listening': {
      const grpc = event.grpc === undefined ? '' : ` and gRPC on ${event.grpc}`;
      return `${time} listening on ${event.http}${grpc}`;
    }
    case 'request': {
      const { face, method, path, status, durationMs, id } = event;
      const call = face === 'http' ? `${method} ${path}` : `gRPC ${path}`;
      return `${time} ${status} ${call} ${durationMs.toFixed(1)} ms ${id}`;
    }
    case 'refused':
      return `${time} ${event.status} refused: ${event.reason}`;
    case 'failure':
      return `${time} failure in ${event.where}${event.requestId ? ` (${event.requestId})` : ''}: ${causeText(event.cause)}`;
    default:
      return `${time} ${event.type}`;
  }
}

function causeText(cause: unknown): string {
  return cause instanceof Error ? inspect(cause, { depth: 3 }) : String(cause);
}
