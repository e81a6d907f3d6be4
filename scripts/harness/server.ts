import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** A service in a child process that can be killed and started again on the same port. */
export class KillableServer {
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;
  #port = 0;

  /** `args` are the arguments of the service, without the ports. */
  constructor(args: readonly string[]) {
    this.#args = args;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Starts the service. Resolves when it listens. */
  async start(): Promise<void> {
    const ports = ['--port', String(this.#port), '--grpc-port', 'off'];
    const child = spawn(process.execPath, [main, ...ports, '--log', 'json', ...this.#args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child = child;
    const listening = Promise.withResolvers<string>();
    createInterface({ input: child.stdout }).on('line', (line) => {
      // Other lines are ignored: after a kill, the last one may be incomplete.
      if (line.includes('"event":"listening"')) listening.resolve(JSON.parse(line).http);
    });
    child.once('exit', (code) => listening.reject(new Error(`the service exited with ${code}`)));
    this.#port = Number(new URL(await listening.promise).port);
  }

  /** Kills the service without a clean shutdown. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }
}
