#!/usr/bin/env node
// Compiled, this is what `npx users-service` runs, perhaps on a Node.js that cannot read the other files.
// It has no static imports, so that such a Node.js gets as far as this error message.

const oldestNode = 24;

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  process.stderr.write(`users-service: needs Node.js ${oldestNode} or newer, this is ${process.version}\n`);
  process.exitCode = 1;
} else {
  const home = process.env['HOME'] ?? process.env['USERPROFILE'];
  // Compiling the modules takes a quarter of a start. Without a home directory, nothing is cached: any user of the
  // machine could put code for us to run into the shared folder of temporary files.
  if (home) (await import('node:module')).enableCompileCache(`${home}/.cache/users-service`);
  const { run } = await import('./commands/commands.ts');
  // Continue when a reader of our output or progress closes the pipe.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  process.exitCode = await run({
    args: process.argv.slice(2),
    env: process.env,
    nodeVersion: process.version,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    onSignal: (signal, handle) => process.on(signal, handle),
    onCrash: (handle) => process.on('uncaughtExceptionMonitor', handle),
    exit: (code) => process.exit(code),
  });
}
