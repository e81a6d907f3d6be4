#!/usr/bin/env node
// Compiled, this is what `npx users-service` runs, perhaps on a Node.js that cannot read the other files.
// It imports them dynamically, so that such a Node.js first runs the check of its version.
import './require-node.cjs';

const args = process.argv.slice(2);
// A SIGHUP must not end a service that still loads its modules. The service reads its files after it has begun to
// handle the signal, so it misses no change of them. Other commands end.
if (/^(serve$|-|$)/.test(args[0] ?? '')) process.on('SIGHUP', () => undefined);
// If a garbage collection finds no object of `process.nextTick`, V8 slows `nextTick` down permanently. So keep one.
const { executionAsyncResource } = await import('node:async_hooks');
const kept: object[] = [];
process.nextTick(() => kept.push(executionAsyncResource()));
const { run } = await import('./commands/commands.ts');
// Continue when a reader of our output or progress closes the pipe.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
let rss = 0;
process.exitCode = await run({
  args,
  env: process.env,
  nodeVersion: process.version,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  onSignal: (signal, handle) => process.on(signal, handle),
  onCrash: (handle) => process.on('uncaughtExceptionMonitor', handle),
  usage() {
    try {
      rss = process.memoryUsage.rss();
    } catch {
      // Node.js opens a file for it, and may have no free file descriptor. The last value stands.
    }
    return { ...process.cpuUsage(), rss };
  },
  exit: (code) => process.exit(code),
});
// The channel to a process manager that uses `node:cluster`, such as pm2, would keep the process alive.
process.channel?.unref();
