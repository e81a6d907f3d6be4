import { readFileSync } from 'node:fs';

// USER_HZ, which is always 100 in the values that Linux reports to programs.
const ticksPerSecond = 100;

/** The CPU time of a process so far, in seconds. Throws if there is no such process or no /proc. */
export function cpuSecondsOf(pid: number | undefined): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name of the command, in parentheses, may contain any text. The numbers follow it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** The resident memory of a process in bytes, now or at most so far. Throws if there is no such process or no /proc. */
export function memoryOf(pid: number | undefined, figure: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${figure}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
}
