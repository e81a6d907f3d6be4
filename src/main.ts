#!/usr/bin/env node
// Compiled, this is what `npx users-service` runs, perhaps on a Node that cannot read the rest: it
// has no static imports, so that such a Node gets as far as the sentence that says so.

const oldestNode = 24;

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  process.stderr.write(`users-service: needs Node.js ${oldestNode} or newer, this is ${process.version}\n`);
  process.exitCode = 1;
} else {
  const home = process.env['HOME'] ?? process.env['USERPROFILE'];
  // Compiling the modules anew takes a quarter of a start. Where nothing can be kept, nothing is; and not
  // in the shared folder of temporary files, where anybody could leave us code to run.
  if (home) (await import('node:module')).enableCompileCache(`${home}/.cache/users-service`);
  const { commands } = await import('./commands/commands.ts');
  const [first = '', ...rest] = process.argv.slice(2);
  const named = first !== '' && !first.startsWith('-');
  const load = commands[named ? first : 'serve'];
  if (load === undefined) {
    const names = Object.keys(commands).join(', ');
    process.stderr.write(`users-service: ${JSON.stringify(first)} is not a command; there are ${names}\n`);
    process.exitCode = 2;
  } else {
    // A reader of our output that goes away is no reason to end.
    process.stdout.on('error', () => undefined);
    const command = await load();
    process.exitCode = await command({
      args: named ? rest : process.argv.slice(2),
      env: process.env,
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
      onSignal: (signal, handle) => process.on(signal, handle),
      onCrash: (handle) => process.on('uncaughtExceptionMonitor', handle),
      exit: (code) => process.exit(code),
    });
  }
}
