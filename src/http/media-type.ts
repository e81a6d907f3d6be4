import { HttpError } from './http-error.ts';

export interface MediaType {
  /** `type/subtype` in lower case. */
  readonly essence: string;
  /** Names in lower case, values unquoted. */
  readonly parameters: Readonly<Record<string, string>>;
}

// RFC 9110, 5.6.2 (token), 5.6.4 (quoted-string) and 8.3.1 (media-type).
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const essencePattern = new RegExp(`^(${token}/${token})[ \\t]*`);
const parameterPattern = new RegExp(`^;[ \\t]*(?:(${token})=(?:(${token})|"((?:[^"\\\\]|\\\\.)*)"))?[ \\t]*`);

/** Parses a Content-Type strictly; `undefined` when it is not one. */
export function parseMediaType(text: string): MediaType | undefined {
  const start = essencePattern.exec(text);
  if (start?.[1] === undefined) return undefined;
  const parameters: Record<string, string> = Object.create(null);
  let rest = text.slice(start[0].length);
  while (rest !== '') {
    const found = parameterPattern.exec(rest);
    if (found === null) return undefined;
    const [all, name, plain, quoted] = found;
    if (name !== undefined) parameters[name.toLowerCase()] = plain ?? quoted?.replace(/\\(.)/g, '$1') ?? '';
    rest = rest.slice(all.length);
  }
  return { essence: start[1].toLowerCase(), parameters };
}

/** Fails with 415 and the header that says what is taken, unless the body is UTF-8 JSON of one of `types`. */
export function checkContentType(
  contentType: string | undefined,
  types: readonly string[],
  acceptHeader: 'accept-post' | 'accept-patch' | 'accept',
): void {
  // By far the most frequent spelling, and always right.
  if (contentType === 'application/json' && types.includes('application/json')) return;
  const type = contentType === undefined ? undefined : parseMediaType(contentType);
  const charset = type?.parameters['charset']?.toLowerCase() ?? 'utf-8';
  if (type === undefined || !types.includes(type.essence) || charset !== 'utf-8') {
    const headers = { [acceptHeader]: types.join(', ') };
    throw new HttpError(415, `Content-Type must be ${types.join(' or ')} in UTF-8`, headers);
  }
}
