import { isInRange, maxTimerMs, rangeText } from '../check-range.ts';

/** One option: how it is written, what it means, what it may be. */
export interface Option<T> {
  /** What stands for the value in the help. */
  readonly value: string;
  readonly help: string;
  /** As text, so that help and `--print-config` say what a user would write; empty for none. */
  readonly fallback: string;
  /** Fails with what the value must be. */
  readonly parse: (text: string) => T;
  /** Its variable, where that is not its name in capitals. */
  readonly env?: string;
  /** What the flag alone stands for; without it a value has to follow. */
  readonly bare?: string;
  /** The value as it may be shown; without it as it is. */
  readonly redact?: (text: string) => string;
}

const truths = ['true', '1', 'yes'];
const untruths = ['false', '0', 'no'];

export function text(value: string, help: string): Option<string> {
  return { value, fallback: '', help, parse: (written) => written };
}

export function integer(min: number, max: number, fallback: string, help: string): Option<number> {
  const parse = (written: string): number => {
    const number = /^[0-9]{1,15}$/.test(written) ? Number(written) : Number.NaN;
    if (!isInRange(number, [min, max])) throw new Error(rangeText([min, max]));
    return number;
  };
  return { value: 'N', fallback, help, parse };
}

export function milliseconds(min: number, fallback: string, help: string): Option<number> {
  return { ...integer(min, maxTimerMs, fallback, help), value: 'MS' };
}

export function port(fallback: string, help: string): Option<number> {
  return { ...integer(0, 65_535, fallback, help), value: 'PORT' };
}

/** A port, or `off` for none. */
export function optionalPort(fallback: string, help: string): Option<number | false> {
  const { parse, ...rest } = port(fallback, help);
  const parseOptional = (written: string): number | false => {
    if (written === 'off') return false;
    try {
      return parse(written);
    } catch (error) {
      throw new Error(`off or ${(error as Error).message}`);
    }
  };
  return { ...rest, parse: parseOptional };
}

export function host(fallback: string, help: string): Option<string> {
  const parse = (written: string): string => {
    // Node takes an empty host for all interfaces, which nobody should open by accident.
    if (!/^[^\s/]+$/.test(written)) throw new Error('an address or a host name');
    return written.replace(/^\[(.*)\]$/, '$1');
  };
  return { value: 'HOST', fallback, help, parse };
}

export function choice<const T extends string>(values: readonly T[], fallback: T, help: string): Option<T> {
  const parse = (written: string): T => {
    const found = values.find((value) => value === written);
    if (found === undefined) throw new Error(`one of ${values.join(', ')}`);
    return found;
  };
  return { value: values.join('|'), fallback, help, parse };
}

export function toggle(help: string): Option<boolean> {
  const parse = (written: string): boolean => {
    const word = written.toLowerCase();
    if (!truths.includes(word) && !untruths.includes(word)) throw new Error('true or false');
    return truths.includes(word);
  };
  return { value: 'true|false', fallback: 'false', help, parse, bare: 'true' };
}

export function list(value: string, help: string): Option<readonly string[]> {
  const parse = (written: string): readonly string[] => {
    if (written === '') return [];
    const items = written.split(',').map((item) => item.trim());
    if (items.includes('')) throw new Error('a list separated by commas, none of them empty');
    return items;
  };
  return { value, fallback: '', help, parse };
}

/** Keys as a header can carry them; never shown. */
export function keys(help: string): Option<readonly string[]> {
  const { parse, ...rest } = list('KEYS', help);
  const parseKeys = (written: string): readonly string[] => {
    const items = parse(written);
    if (!items.every((item) => /^[\x21-\x7e]+$/.test(item))) {
      throw new Error('a list of keys of visible ASCII characters, separated by commas');
    }
    return items;
  };
  return { ...rest, parse: parseKeys, redact: hidden };
}

/** Origins of pages as browsers send them, or `*`. */
export function origins(help: string): Option<readonly string[]> {
  const { parse, ...rest } = list('ORIGINS', help);
  const parseOrigins = (written: string): readonly string[] => {
    const items = parse(written);
    if (!items.every((item) => item === '*' || isOrigin(item))) {
      throw new Error('* or a list of origins such as https://app.example, without wildcards and paths');
    }
    return items;
  };
  return { ...rest, parse: parseOrigins };
}

function isOrigin(item: string): boolean {
  // The URL standard would have taken the wildcard for a part of the name.
  return /^https?:[^*]+$/.test(item) && URL.parse(item)?.origin === item;
}

export function databaseUrl(fallback: string, help: string): Option<string> {
  const known = /^(memory:|sqlite:(?!:memory:$)(\/\/(?=\/))?.+|postgres(ql)?:\/\/.+)$/s;
  const parse = (written: string): string => {
    if (!known.test(written)) throw new Error('memory:, sqlite:PATH or postgres://USER@HOST/NAME');
    // What looks like a host would be a part of the password, and be told as where nobody answers.
    // Without a host, `?host=` names the folder of a socket.
    const url = URL.parse(written.replace('@/', '@host/'));
    if (written.startsWith('postgres') && url?.pathname.includes('@') !== false) {
      throw new Error('a URL, with @ and / in its password as %40 and %2F');
    }
    return written;
  };
  return { value: 'URL', fallback, help, parse, redact: withoutPassword };
}

/** For what must never be shown. */
export function hidden(text: string): string {
  return text === '' ? '' : '(hidden)';
}

// A password may hold any character, unescaped by whoever wrote it: all up to the last @ is taken for
// it. What hides too much of a strange URL is better than what shows a part of one.
function withoutPassword(url: string): string {
  return url
    .replace(/^([a-z]+:\/\/[^:@/?]*):.*@/s, '$1:(hidden)@')
    .replace(/([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*/gi, '$1(hidden)');
}
