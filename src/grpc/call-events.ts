import { type Server, type ServerInterceptingCall, type ServerInterceptor, status } from '@grpc/grpc-js';
import type { Observe } from '../telemetry/events.ts';
import { requestId } from '../telemetry/request-id.ts';
import { UsersService } from './stubs.ts';

interface Ending {
  readonly path: string;
  readonly code: number;
  readonly durationMs: number;
  /** The path, where there is such a method. */
  readonly route: string | undefined;
}

const { path: ours } = UsersService.getUser;

/**
 * Reports how calls end that are none of `unary`'s: those of health and reflection, and those of ours
 * that end before a handler has begun. What is refused as no gRPC at all (415) is not a call.
 */
export function reportCallEnds(observe: Observe): ServerInterceptor {
  return ({ path }, call) => {
    const startedAt = performance.now();
    const { start, sendStatus } = call;
    // Or is its handler's to tell, which begins when the request is whole.
    let isTold = false;
    let hasMessage = false;
    const tell = (code: status): void => {
      if (isTold) return;
      isTold = true;
      report(observe, { path, code, durationMs: performance.now() - startedAt, route: path });
    };
    // On the call itself: another one around it would cost each call much more.
    call.start = (listener) =>
      start.call(call, {
        ...listener,
        onReceiveMessage(message) {
          hasMessage = true;
          listener.onReceiveMessage(message);
        },
        onReceiveHalfClose() {
          // Its handler would answer a client that has had its answer.
          if (path === ours && isTold) return;
          isTold ||= path === ours && hasMessage;
          listener.onReceiveHalfClose();
        },
        // However a call ends, this is the last that is heard of it.
        onCancel() {
          tell(status.CANCELLED);
          listener.onCancel();
        },
      });
    call.sendStatus = (ending) => {
      sendStatus.call(call, ending);
      tell(ending.code ?? status.UNKNOWN);
    };
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
      report(observe, { path, code: status.UNIMPLEMENTED, durationMs: 0, route: undefined });
    return handler;
  });
}

function report(observe: Observe, { path, code, durationMs, route }: Ending): void {
  observe({
    type: 'request',
    face: 'grpc',
    id: requestId(undefined),
    method: 'POST',
    path,
    status: code,
    durationMs,
    route,
    traceparent: undefined,
  });
}
