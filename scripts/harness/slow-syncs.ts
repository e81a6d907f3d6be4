/** What to put before a command whose every fsync and fdatasync shall take so much longer, in ms. */
export function slowSyncs(ms: number): readonly string[] {
  if (ms === 0) return [];
  const quiet = ['-D', '-f', '--seccomp-bpf', '-qq', '-o', '/dev/null', '-e', 'trace=fsync,fdatasync'];
  return ['strace', ...quiet, '-e', `inject=fsync,fdatasync:delay_enter=${Math.round(ms * 1000)}`];
}
