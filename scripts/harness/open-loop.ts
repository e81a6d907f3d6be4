// Sends requests at a fixed rate without waiting for earlier responses, as independent clients do. Runs in a
// separate process on a separate core. Reads its job from the first argument and prints its `LoadReport`.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSecondsOf } from './proc.ts';
import { percentile } from './statistics.ts';

export interface LoadJob {
  readonly port: number;
  /** The process of the server. */
  readonly pid: number;
  /** Requests per second. If absent, as many as the server completes, which is its capacity. */
  readonly rate?: number;
  /** The maximum number of open connections. */
  readonly connections: number;
  /** Whether a request waits while all connections are busy, instead of not being sent. Default: false. */
  readonly waits?: boolean;
  readonly warmUpMs: number;
  readonly measureMs: number;
  /** The number of requests in 10 that create a user. The others read one. */
  readonly writesInTen: number;
  /** Users to create per second in addition, which the report does not count. Default: 0. */
  readonly writesBeside?: number;
  /** Reads use the ids from 1 to this one. */
  readonly users: number;
}

export interface LoadReport {
  /** Per second, like the following fields. */
  readonly offered: number;
  readonly accepted: number;
  readonly refused: number;
  /** Requests that were not sent because all connections were busy. */
  readonly unsent: number;
  /**
   * Broken connections, unexpected statuses, and requests without a response. There should be none. Rounded up, so that
   * a single one shows.
   */
  readonly failed: number;
  /** From the time at which the request was due to its response, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly refusedP99: number;
  /** The longest delay of a request, in ms. Above a few ms the load generator was overloaded. */
  readonly lateMs: number;
  /** Processor time of the service, as a share of a core. Other processes on the machine use some of it. */
  readonly cpuShare: number;
}

interface Request {
  /** When it was due, by `performance.now()`. */
  readonly dueAt: number;
  readonly isWrite: boolean;
  readonly counts: boolean;
}

interface Connection {
  readonly socket: Socket;
  request: Request;
  received: string;
}

const host = 'host: localhost\r\n';
const patienceMs = 10_000;

class OpenLoop {
  readonly #job: LoadJob;
  readonly #idle: Connection[] = [];
  readonly #waiting: Request[] = [];
  readonly #counts = { offered: 0, unsent: 0, failed: 0 };
  readonly #accepted: number[] = [];
  readonly #refused: number[] = [];
  #open = 0;
  #sent = 0;
  /** When the measurement begins and ends. */
  #from = Number.POSITIVE_INFINITY;
  #to = Number.POSITIVE_INFINITY;
  #lateMs = 0;

  constructor(job: LoadJob) {
    this.#job = job;
  }

  async run(): Promise<LoadReport> {
    const { rate, connections, warmUpMs, measureMs } = this.#job;
    if (rate === undefined)
      for (let i = 0; i < connections; i += 1) this.#arrive(this.#next(performance.now()));
    else this.#pace(rate);
    await sleep(warmUpMs);
    this.#from = performance.now();
    const cpuBefore = cpuSecondsOf(this.#job.pid);
    await sleep(measureMs);
    const cpu = cpuSecondsOf(this.#job.pid) - cpuBefore;
    this.#to = performance.now();
    const seconds = (this.#to - this.#from) / 1000;
    const unanswered = await this.#finish();
    const perSecond = (count: number) => Math.round(count / seconds);
    const { offered, unsent, failed } = this.#counts;
    return {
      offered: perSecond(offered),
      accepted: perSecond(this.#accepted.length),
      refused: perSecond(this.#refused.length),
      unsent: perSecond(unsent),
      failed: Math.ceil((failed + unanswered) / seconds),
      p50: roundedPercentile(this.#accepted, 0.5),
      p99: roundedPercentile(this.#accepted, 0.99),
      p999: roundedPercentile(this.#accepted, 0.999),
      refusedP99: roundedPercentile(this.#refused, 0.99),
      lateMs: Math.round(this.#lateMs),
      cpuShare: cpu / seconds,
    };
  }

  /** Waits for the responses to all requests. Resolves to the number of those without one. */
  async #finish(): Promise<number> {
    const unanswered = () => this.#open - this.#idle.length + this.#waiting.length;
    while (unanswered() > 0 && performance.now() < this.#to + patienceMs) await sleep(1);
    return unanswered();
  }

  /** Only the requests that are due during the measurement count. */
  #isMeasured({ dueAt }: Request): boolean {
    return dueAt >= this.#from && dueAt < this.#to;
  }

  #pace(rate: number): void {
    const { writesBeside = 0 } = this.#job;
    const startedAt = performance.now();
    let arrivals = 0;
    let beside = 0;
    const tick = (): void => {
      const now = performance.now();
      if (now >= this.#to) return;
      const seconds = (now - startedAt) / 1000;
      for (; arrivals < seconds * rate; arrivals += 1) {
        const dueAt = startedAt + (arrivals / rate) * 1000;
        const request = this.#next(dueAt);
        if (this.#isMeasured(request)) this.#lateMs = Math.max(this.#lateMs, now - dueAt);
        this.#arrive(request);
      }
      for (; beside < seconds * writesBeside; beside += 1) {
        this.#arrive({ dueAt: now, isWrite: true, counts: false });
      }
      // A timer would send all requests of a millisecond at once.
      setImmediate(tick);
    };
    tick();
  }

  #next(dueAt: number): Request {
    return { dueAt, isWrite: this.#sent % 10 < this.#job.writesInTen, counts: true };
  }

  #arrive(request: Request): void {
    const counts = request.counts && this.#isMeasured(request);
    if (counts) this.#counts.offered += 1;
    // Use the most recently used connection first, as the pools of most clients do.
    const idle = this.#idle.pop();
    if (idle !== undefined) this.#send(idle, request);
    else if (this.#open < this.#job.connections) this.#connect(request);
    else if (this.#job.waits) this.#waiting.push(request);
    else if (counts) this.#counts.unsent += 1;
  }

  #connect(request: Request): void {
    this.#open += 1;
    const socket = connect({ port: this.#job.port, host: '127.0.0.1', noDelay: true });
    const connection: Connection = { socket, request, received: '' };
    socket.on('data', (chunk) => this.#receive(connection, chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#open -= 1;
      const at = this.#idle.indexOf(connection);
      if (at !== -1) this.#idle.splice(at, 1);
      else if (this.#isMeasured(connection.request)) this.#counts.failed += 1;
    });
    // The request is written when the connection is open.
    this.#send(connection, request);
  }

  #send(connection: Connection, request: Request): void {
    connection.request = request;
    this.#sent += 1;
    if (request.isWrite) {
      // With a role, as the peers of the bench require one.
      const body = `{"name":"Ada ${this.#sent}","role":"member"}`;
      const type = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
      connection.socket.write(`POST /users HTTP/1.1\r\n${host}${type}\r\n${body}`);
    } else {
      const id = ((this.#sent * 7_368_787) % this.#job.users) + 1;
      connection.socket.write(`GET /users/${id} HTTP/1.1\r\n${host}\r\n`);
    }
  }

  #receive(connection: Connection, text: string): void {
    connection.received += text;
    const { received } = connection;
    const head = received.indexOf('\r\n\r\n');
    if (head === -1) return;
    const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0);
    if (received.length < head + 4 + length) return;
    connection.received = '';
    const { request } = connection;
    const status = received.slice(9, 12);
    const now = performance.now();
    if (this.#isMeasured(request) && request.counts) this.#count(status, now - request.dueAt);
    else if (this.#isMeasured(request) && status !== '201') this.#counts.failed += 1;
    const next = this.#job.rate === undefined && now < this.#to ? this.#next(now) : this.#waiting.shift();
    if (next === undefined) {
      this.#idle.push(connection);
      return;
    }
    if (this.#job.rate === undefined && this.#isMeasured(next)) this.#counts.offered += 1;
    this.#send(connection, next);
  }

  #count(status: string, ms: number): void {
    if (status === '200' || status === '201') this.#accepted.push(ms);
    else if (status === '503') this.#refused.push(ms);
    else this.#counts.failed += 1;
  }
}

/** In milliseconds, rounded to a hundredth; 0 without values. */
const roundedPercentile = (values: readonly number[], share: number): number =>
  Math.round(100 * percentile(values, share)) / 100 || 0;

const job: LoadJob = JSON.parse(process.argv[2] ?? '');
console.log(JSON.stringify(await new OpenLoop(job).run()));
process.exit();
