import { type Server, type ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js';
import type { Observe } from '../observer.ts';
import { requestId } from '../request-id.ts';

interface Ending {
  readonly path: string;
  readonly code: number;
  readonly durationMs: number;
  readonly isKnown: boolean;
}

/**
 * Reports the calls that are none of `unary`'s: those grpc-js refuses before a handler sees them, and those
 * of health and reflection. A status of ours has metadata, one of grpc-js has none.
 */
export function reportOwnEndings(observe: Observe): ServerInterceptor {
  return ({ path }, call) => {
    const startedAt = performance.now();
    const { sendStatus, sendMessage } = call;
    const isOurs = path === '/Users/GetUser';
    let isTold = false;
    // On the call itself: another one around it would cost each call much more.
    call.sendStatus = (ending) => {
      sendStatus.call(call, ending);
      if (isTold || ending.metadata) return;
      isTold = true;
      // One that passes while our handler is at work is the handler's to tell.
      if (isOurs && ending.code === status.DEADLINE_EXCEEDED) return;
      const durationMs = performance.now() - startedAt;
      report(observe, { path, code: ending.code ?? status.UNKNOWN, durationMs, isKnown: true });
    };
    if (isOurs) {
      call.sendMessage = (message, callback) => {
        isTold = true;
        sendMessage.call(call, message, callback);
      };
    }
    // Its types want one that wraps another, it itself does not.
    return call as ServerInterceptingCall;
  };
}

/** Reports calls of methods there are not, of which grpc-js 1.14 tells no interceptor. */
export function reportUnknownMethods(server: Server, observe: Observe): void {
  const lookUp: unknown = Reflect.get(server, '_retrieveHandler');
  if (typeof lookUp !== 'function') return;
  Reflect.set(server, '_retrieveHandler', (path: string): unknown => {
    const handler: unknown = lookUp.call(server, path);
    if (handler === null)
      report(observe, { path, code: status.UNIMPLEMENTED, durationMs: 0, isKnown: false });
    return handler;
  });
}

function report(observe: Observe, { path, code, durationMs, isKnown }: Ending): void {
  observe({
    type: 'request',
    face: 'grpc',
    id: requestId(undefined),
    method: 'POST',
    path,
    status: code,
    durationMs,
    route: isKnown ? path : undefined,
    traceparent: undefined,
  });
}
