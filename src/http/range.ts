/** The bytes from `start` to `end`, both included. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

const rangePattern = /^bytes=[ \t]*(?:([0-9]+)-([0-9]+)?|-([0-9]+))[ \t]*$/i;

/**
 * Reads a Range header (RFC 9110, 14.2) against a size in bytes. Several ranges, another unit or a
 * malformed one count as none: the whole is then the right answer.
 */
export function parseRange(
  header: string | undefined,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const found = header === undefined ? null : rangePattern.exec(header);
  if (found === null) return undefined;
  const [, first, last, suffix] = found;
  if (suffix !== undefined) {
    if (Number(suffix) === 0 || size === 0) return 'unsatisfiable';
    return { start: Math.max(size - Number(suffix), 0), end: size - 1 };
  }
  const start = Number(first);
  if (last !== undefined && Number(last) < start) return undefined;
  if (start >= size) return 'unsatisfiable';
  return { start, end: Math.min(Number(last ?? size), size - 1) };
}
