import querystring from 'node:querystring';
import { getSystemErrorMessage } from 'node:util';
import { DomainError, messageOf } from '../domain/errors.ts';

/** Wrong usage of a command. Its message has a line for each problem, and the exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Whether the user gave an invalid value, such as a URL that the store rejected. */
export function isInvalid(error: unknown): boolean {
  return error instanceof DomainError && error.kind === 'invalid';
}

export function usageOf(help: string): UsageError {
  return new UsageError(help.split('\n')[0]);
}

// Of a URL, or of a list such as `password='…' host = …`, as libpq and ADO.NET write the address of a database.
const parameters = /((?:[?&][^=&]*|(?:^|\s)[^=&\s]*\s*)=\s*)(?:'[^']*'|"[^"]*"|[^&\s]*)/g;

// A password may contain any character, unescaped, so everything up to the last @ is hidden. Hiding too much of an
// unusual URL is better than showing a part of a password. Names may be encoded, or inside the value of `options`.
export function withoutPasswords(text: string): string {
  return text
    .replace(/([a-z]+:\/\/[^:@/?\s]*):.*@/gs, '$1:(hidden)@')
    .replace(parameters, (parameter, name) =>
      /(?:passw|pwd|secret|token)[^=]*=/i.test(querystring.unescape(parameter))
        ? `${name}(hidden)`
        : parameter,
    );
}

/** An unknown option or command, without a secret that follows the word for it, as in `--api-keySECRET`. */
export function withoutSecret(name: string): string {
  return name.replace(/(key|password|secret|token)(?!s$).+/is, '$1…');
}

/** The message of an error with those of its causes, in one line and without passwords. */
export function describeError(error: unknown): string {
  const messages: string[] = [];
  const isNamed = (part: string) => messages.some((earlier) => earlier.includes(part));
  const seen = new Set<unknown>();
  for (let cause = error; cause !== undefined && !seen.has(cause); ) {
    seen.add(cause);
    const raw = messageOf(cause);
    const reason = isFileError(cause) ? getSystemErrorMessage(cause.errno) : raw;
    const message = isFileError(cause) && !isNamed(cause.path) ? `${cause.path}: ${reason}` : reason;
    // Many errors repeat the message of their cause.
    if (!isNamed(message) && !isNamed(raw)) messages.push(message);
    cause = Error.isError(cause) ? cause.cause : undefined;
  }
  // A file or a server may have put escape sequences for a terminal into a message.
  return withoutPasswords(messages.join(': ').replaceAll(/\s+/g, ' ')).replaceAll(/\p{Cc}/gu, '\u{FFFD}');
}

/** Rejects with an error of a system call, and adds the path, which calls with an open file do not report. */
export function failedAt(path: string): (error: Error) => Promise<never> {
  return (error) => Promise.reject(Object.assign(error, { path }));
}

/** Whether a system call failed for a path. */
function isFileError(error: unknown): error is { readonly path: string; readonly errno: number } {
  return Error.isError(error) && 'path' in error && 'errno' in error && 'syscall' in error;
}
