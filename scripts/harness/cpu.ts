import { readFileSync } from 'node:fs';

// USER_HZ, which Linux fixes at 100 for what it tells programs.
const ticksPerSecond = 100;

/** CPU time a process has had so far, in seconds. Throws where there is no such process, or no /proc. */
export function cpuSecondsOf(pid: number | undefined): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command's name, in parentheses, may hold anything; the numbers come after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}
