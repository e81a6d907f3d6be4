/** A command prefix that delays every fsync and fdatasync of a command by this many ms. */
export function slowSyncs(ms: number): readonly string[] {
  if (ms === 0) return [];
  const quiet = ['-D', '-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', '-e', 'trace=fsync,fdatasync'];
  return ['strace', ...quiet, '-e', `inject=fsync,fdatasync:delay_enter=${Math.round(ms * 1000)}`];
}
