import { type Command, type CommandContext, packageVersion, print, readArguments } from './command-line.ts';
import { describeError, isInvalid, UsageError, withoutPasswords, withoutSecret } from './errors.ts';

// Imported on demand, because loading the modules of all commands would delay the start of the service.
const commands: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['serve', async () => (await import('./serve.ts')).serve],
  ['copy', async () => (await import('./transfer.ts')).copy],
  ['export', async () => (await import('./transfer.ts')).exportRecords],
  ['import', async () => (await import('./transfer.ts')).importRecords],
  ['backup', async () => (await import('./backup.ts')).backup],
  ['changes', async () => (await import('./changes.ts')).changes],
  ['verify', async () => (await import('./verify.ts')).verify],
  ['doctor', async () => (await import('./doctor.ts')).doctor],
]);

/**
 * Runs the command that the first argument names; without a name, the service. Prints the help or the version on
 * request. Prints errors. Resolves to the exit code: 0 done, 1 failed, 2 wrong usage, or the command's own.
 */
export async function run(context: CommandContext): Promise<number> {
  const { stdout, stderr } = context;
  const [first = '', ...rest] = context.args;
  if (first === 'help') return await run({ ...context, args: [...rest, '--help'] });
  if (first === 'version') return await run({ ...context, args: ['--version'] });
  const isNamed = first !== '' && !first.startsWith('-');
  const args = isNamed ? rest : context.args;
  const has = (...names: string[]) => args.some((arg) => names.includes(arg));
  try {
    const load = commands.get(isNamed ? first : 'serve');
    if (load === undefined) {
      const names = [...commands.keys()].join(', ');
      const shown = JSON.stringify(withoutSecret(withoutPasswords(first)));
      throw new UsageError(`${shown} is not a command; the commands are ${names}, help and version`);
    }
    const command = await load();
    const asksHelp = has('--help', '-h');
    if (!asksHelp && !has('--version', '-v'))
      return (await command.run(context, readArguments(args, command))) ?? 0;
    await print(stdout, asksHelp ? command.help : `${packageVersion}\n`);
    return 0;
  } catch (error) {
    return printError(error, stderr);
  }
}

/** Prints the problems of an error, and returns the exit code. */
function printError(error: unknown, stderr: CommandContext['stderr']): number {
  // Report the original error, not the one from cleaning up.
  if (error instanceof SuppressedError) return printError(error.suppressed, stderr);
  const problems = error instanceof UsageError ? error.message.split('\n') : [describeError(error)];
  // On a terminal, the message replaces a progress bar.
  if (stderr.isTTY) stderr.write('\r\u001b[K');
  for (const problem of problems) stderr.write(`users-service: ${problem}\n`);
  return error instanceof UsageError || isInvalid(error) ? 2 : 1;
}
