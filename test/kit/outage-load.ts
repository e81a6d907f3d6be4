import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UsersClient } from '../../generated/users_grpc_pb.js';
import { getUser } from './grpc.ts';
import { type Intent, Ledger } from './ledger.ts';

/** A service under load, and the size of the load. */
export interface OutageTarget {
  readonly child: ChildProcess;
  readonly http: string;
  readonly client: UsersClient;
  /** The number of clients that read, and also of those that create. Half as many call the gRPC API. */
  readonly clients: number;
  /** Pause of each client after a response, in milliseconds. Default: none after a success, 10 after a failure. */
  readonly pauseMs?: number;
  /** Called after each response. */
  readonly onAnswer?: (what: string, isSuccess: boolean) => void;
}

/** The responses since the last report. */
export interface OutageReport {
  /** The number of responses by call and status. */
  readonly answers: Readonly<Record<string, number>>;
  /** The longest response time of each call, in milliseconds. */
  readonly slowestMs: Readonly<Record<string, number>>;
}

const refusedPauseMs = 10;
const probePauseMs = 20;
// Longer than any limit of the service, so that a missing response differs from a slow one.
const clientTimeoutMs = 15_000;
const grpcNames: Readonly<Record<number, string>> = {
  0: 'OK',
  4: 'DEADLINE_EXCEEDED',
  8: 'RESOURCE_EXHAUSTED',
  14: 'UNAVAILABLE',
};

interface Answer {
  readonly status: number | string;
  readonly text: string;
  readonly retryAfter: string | null;
}

/**
 * Keeps both APIs of a service busy while its database stops and restarts, and records everything that no
 * client should see: a status other than "unavailable", a broken connection, a success without a database.
 */
export class OutageLoad {
  readonly ledger = new Ledger();
  readonly violations = new Set<string>();
  readonly #target: OutageTarget;
  readonly #working: Promise<void>[];
  #isRunning = true;
  #isAbandoned = false;
  #isDatabaseDown = false;
  #answers: Record<string, number> = {};
  #slowestMs: Record<string, number> = {};

  constructor(target: OutageTarget) {
    this.#target = target;
    target.child.once(
      'exit',
      (code) => this.#isRunning && this.violations.add(`the process exited: ${code}`),
    );
    const { clients } = target;
    const times = (count: number, work: () => Promise<void>) => Array.from({ length: count }, work);
    this.#working = [
      ...times(1, () => this.#probe('/health', [200])),
      ...times(1, () => this.#probe('/health/ready', [200, 503])),
      ...times(clients, () => this.#create()),
      ...times(clients, () => this.#read()),
      ...times(Math.ceil(clients / 2), () => this.#call()),
    ];
  }

  /** Sets whether the database is down, so that calls that need it must fail. */
  databaseIs(state: 'up' | 'down'): void {
    this.#isDatabaseDown = state === 'down';
  }

  /** Whether this response, such as `GetUser UNAVAILABLE`, was seen since the last report. */
  has(answer: string): boolean {
    return answer in this.#answers;
  }

  report(): OutageReport {
    const report = { answers: this.#answers, slowestMs: this.#slowestMs };
    this.#answers = {};
    this.#slowestMs = {};
    return report;
  }

  /** Ends the load after every started creation has been acknowledged. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    await Promise.all(this.#working);
  }

  /** Ends the load at once. Some creations may not be acknowledged. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true;
    await this.stop();
  }

  async #probe(path: string, allowed: readonly number[]): Promise<void> {
    while (this.#isRunning) {
      await this.#measure(`GET ${path}`, () => this.#fetch(path), allowed);
      await this.#pause(probePauseMs);
    }
  }

  async #create(): Promise<void> {
    while (this.#isRunning) {
      const intent = this.ledger.add();
      // A failed attempt may still be running in the database. Then its key is in use.
      for (
        let allowed = [201, 503];
        intent.id === undefined && !this.#isAbandoned;
        allowed = [201, 409, 503]
      ) {
        const answer = await this.#measure('POST /users', () => this.#post(intent), allowed);
        if (answer.status === 201) {
          intent.id = JSON.parse(answer.text).id;
          await this.#pause(0);
        } else if (!allowed.includes(Number(answer.status))) return;
        else await this.#pause(refusedPauseMs);
      }
    }
  }

  async #read(): Promise<void> {
    while (this.#isRunning) {
      const read = () => this.#fetch(`/users/${this.#someId()}`);
      const { status } = await this.#measure('GET /users/{id}', read, [200, 503]);
      await this.#pause(status === 200 ? 0 : refusedPauseMs);
    }
  }

  async #call(): Promise<void> {
    while (this.#isRunning) {
      const call = async () => {
        const deadline = Date.now() + clientTimeoutMs;
        const { code } = await getUser(this.#target.client, this.#someId(), { deadline });
        return { status: grpcNames[code] ?? code, text: '', retryAfter: null };
      };
      const { status } = await this.#measure('GetUser', call, ['OK', 'UNAVAILABLE']);
      await this.#pause(status === 'OK' ? 0 : refusedPauseMs);
    }
  }

  async #pause(defaultMs: number): Promise<void> {
    const ms = this.#target.pauseMs ?? defaultMs;
    if (ms > 0) await sleep(ms);
  }

  /** The id of an acknowledged user. If it is not found, it was lost. */
  #someId(): number {
    const { intents } = this.ledger;
    const intent = intents[Math.floor(Math.random() * intents.length)];
    return intent?.id ?? 1;
  }

  async #measure(
    what: string,
    send: () => Promise<Answer>,
    allowed: readonly (number | string)[],
  ): Promise<Answer> {
    const startedDown = this.#isDatabaseDown;
    const start = performance.now();
    const answer = await send();
    const ms = Math.ceil(performance.now() - start);
    const { status, retryAfter } = answer;
    const name = `${what} ${status}`;
    this.#answers[name] = (this.#answers[name] ?? 0) + 1;
    this.#slowestMs[what] = Math.max(this.#slowestMs[what] ?? 0, ms);
    if (!allowed.includes(status)) this.violations.add(`${name} ${answer.text}`);
    if ((status === 503 || status === 409) && retryAfter === null)
      this.violations.add(`${name} without Retry-After`);
    const isSuccess = status === 200 || status === 201 || status === 'OK';
    this.#target.onAnswer?.(what, isSuccess);
    if (isSuccess && startedDown && this.#isDatabaseDown && what !== 'GET /health') {
      this.violations.add(`${name} without a database`);
    }
    return answer;
  }

  #post({ key, name }: Intent): Promise<Answer> {
    return this.#fetch('/users', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ name }),
    });
  }

  async #fetch(path: string, init: RequestInit = {}): Promise<Answer> {
    try {
      const signal = AbortSignal.timeout(clientTimeoutMs);
      const response = await fetch(`${this.#target.http}${path}`, { ...init, signal });
      const text = await response.text();
      return { status: response.status, text, retryAfter: response.headers.get('retry-after') };
    } catch (caught) {
      return {
        status: 'broken',
        text: String(caught instanceof Error ? (caught.cause ?? caught) : caught),
        retryAfter: null,
      };
    }
  }
}

/** Resolves to the milliseconds until readiness has the wanted state. */
export async function untilReady(http: string, ready: boolean, limitMs = 120_000): Promise<number> {
  const start = performance.now();
  for (;;) {
    const response = await fetch(`${http}/health/ready`);
    await response.arrayBuffer();
    const ms = performance.now() - start;
    if ((response.status === 200) === ready) return Math.ceil(ms);
    if (ms > limitMs) throw new Error(`not ${ready ? 'ready' : 'unready'} within ${limitMs} ms`);
    await sleep(5);
  }
}
