import type { Command } from './command.ts';

/** Every command by its name, loaded when it is called. */
const commands: ReadonlyMap<string, () => Promise<Command>> = new Map([
  ['serve', async () => (await import('./serve.ts')).serve],
  ['copy', async () => (await import('./copy.ts')).copy],
  ['export', async () => (await import('./export.ts')).exportRecords],
  ['import', async () => (await import('./import.ts')).importRecords],
  ['backup', async () => (await import('./backup.ts')).backup],
  ['changes', async () => (await import('./changes.ts')).changes],
  ['verify', async () => (await import('./verify.ts')).verify],
  ['doctor', async () => (await import('./doctor.ts')).doctor],
]);

/** Runs the command that the first argument names; without a name, the service. */
export const run: Command = async (context) => {
  const [first = '', ...rest] = context.args;
  if (first === 'help') return await run({ ...context, args: [...rest, '--help'] });
  if (first === 'version') return await run({ ...context, args: ['--version'] });
  const isNamed = first !== '' && !first.startsWith('-');
  const load = commands.get(isNamed ? first : 'serve');
  if (load === undefined) {
    const names = [...commands.keys()].join(', ');
    context.stderr.write(
      `users-service: ${JSON.stringify(first)} is not a command; the commands are ${names}, help and version\n`,
    );
    return 2;
  }
  const command = await load();
  return await command({ ...context, args: isNamed ? rest : context.args });
};
