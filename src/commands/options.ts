import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { databaseOption } from '../config.ts';
import type { Store } from '../domain/repository.ts';
import { openStore, sqlitePath } from '../storage/open.ts';
import type { CommandContext } from './command.ts';

/** A mistake in how a command was called: one line, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface CommandOptions {
  readonly values: Readonly<Record<string, string>>;
  readonly positionals: readonly string[];
}

/** Reads `--name VALUE` options; an unknown one, a missing or an empty value is a `UsageError`. */
export function parseOptions(args: readonly string[], names: readonly string[]): CommandOptions {
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    for (const [name, value] of Object.entries(values)) {
      if (value === '') throw new Error(`--${name} must have a value`);
    }
    return { values: { ...values } as Record<string, string>, positionals };
  } catch (error) {
    // parseArgs explains itself in several sentences; the first says what is wrong.
    const [sentence] = error instanceof Error ? error.message.split('. ') : [];
    throw new UsageError(sentence ?? String(error), { cause: error });
  }
}

const { parse, redact, fallback } = databaseOption;

/** The store of `--database`, else of `DATABASE_URL`, else the default one. */
export function databaseUrl({ values }: CommandOptions, env: CommandContext['env']): string {
  const { database } = values;
  if (database !== undefined) return parseUrl('--database', database);
  return parseUrl('DATABASE_URL', env['DATABASE_URL'] || fallback);
}

/** The URL of a store; another text is a `UsageError` that names its option. */
export function parseUrl(label: string, text: string): string {
  try {
    return parse(text);
  } catch (error) {
    const not = JSON.stringify(redact?.(text));
    throw new UsageError(`${label} must be ${(error as Error).message}, not ${not}`, { cause: error });
  }
}

/** Opens a store to read from: a file that is not there is a mistake, not an empty store. */
export async function openSource(url: string): Promise<Store> {
  const path = sqlitePath(url);
  if (path !== undefined && !existsSync(path)) throw new Error(`there is no SQLite file ${path}`);
  return await openStore(url);
}

/** A call that is not as the first line of the help says. */
export function misuse(help: string): UsageError {
  return new UsageError(help.split('\n', 1)[0]);
}

/**
 * Runs `work`, or tells the help when that is asked for. A failure becomes one line and the exit code 1,
 * or 2 when the call was the mistake.
 */
export async function runCommand(
  { args, stdout, stderr }: CommandContext,
  help: string,
  work: () => Promise<void>,
): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    stdout.write(help);
    return 0;
  }
  try {
    await work();
    return 0;
  } catch (error) {
    stderr.write(`users-service: ${error instanceof Error ? error.message : error}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
}
