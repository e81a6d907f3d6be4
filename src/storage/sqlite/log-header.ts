import { closeSync, openSync, readSync } from 'node:fs';

export const logHeaderBytes = 32;

/** The header of an open log; fewer bytes if the log is shorter. */
export function readHeader(log: number): Buffer {
  const header = Buffer.alloc(logHeaderBytes);
  const read = () => header.subarray(0, readSync(log, header, 0, header.length, 0));
  const first = read();
  // A read may have parts of two headers, while another process writes one.
  return isIntact(first) ? first : read();
}

/** Whether the header of a log has its number and its checksums (sqlite.org/fileformat2.html#walformat). */
export function isIntact(header: Buffer): boolean {
  if (header.length < logHeaderBytes || header.readUInt32BE(0) >>> 1 !== 0x377f0682 >>> 1) return false;
  // The last bit of the number is the byte order of the checksums.
  const wordAt = (offset: number) =>
    header[3] === 0x83 ? header.readUInt32BE(offset) : header.readUInt32LE(offset);
  let [first, second] = [0, 0];
  for (let offset = 0; offset < 24; offset += 8) {
    first = (first + wordAt(offset) + second) >>> 0;
    second = (second + wordAt(offset + 4) + first) >>> 0;
  }
  return first === header.readUInt32BE(24) && second === header.readUInt32BE(28);
}

/** Whether the log at a path has a complete header that SQLite would reject. */
export function hasDamagedHeader(path: string): boolean {
  let log: number | undefined;
  try {
    log = openSync(path, 'r');
    const header = readHeader(log);
    return header.length === logHeaderBytes && !isIntact(header);
  } catch {
    // Another process has removed it, or it cannot be read, which `checkWritable` reports.
    return false;
  } finally {
    if (log !== undefined) closeSync(log);
  }
}
