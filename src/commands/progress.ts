/** The output for progress, such as `process.stderr`. */
export interface ProgressSink {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export type Progress = ReturnType<typeof createProgress>;

const redrawEveryMs = 100;
const lineEveryMs = 5_000;
const barWidth = 30;

/** Shows the count, the rate and, with a total, the remaining time: as a bar on a terminal, else in lines. */
export function createProgress(sink: ProgressSink, label: string, total?: number) {
  const { isTTY = false } = sink;
  const startedAt = performance.now();
  let shownAt = isTTY ? Number.NEGATIVE_INFINITY : startedAt;
  let latest = 0;

  const line = (): string => {
    const rate = (latest * 1_000) / Math.max(performance.now() - startedAt, 1);
    const speed = `${count(Math.round(rate))}/s`;
    if (total === undefined) return `${label} ${count(latest)} (${speed})`;
    const share = total === 0 ? 1 : Math.min(latest / total, 1);
    const left = rate > 0 && latest < total ? `, ${duration((total - latest) / rate)} left` : '';
    const bar = isTTY ? `[${'#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.')}] ` : '';
    return `${label} ${bar}${Math.floor(share * 100)} % (${count(latest)} of ${count(total)}, ${speed}${left})`;
  };
  const show = (ending: string): void => {
    // 0 is an unknown width too, as in a container.
    const columns = sink.columns || 120;
    // A line that wraps could not be overwritten: `\r` returns only to the start of its last part. The escape sequence
    // erases the rest of an earlier, longer line.
    sink.write(isTTY ? `\r${line().slice(0, columns - 1)}\u001b[K${ending}` : `${line()}\n`);
  };
  return {
    update(done: number): void {
      latest = done;
      if (performance.now() - shownAt < (isTTY ? redrawEveryMs : lineEveryMs)) return;
      shownAt = performance.now();
      show('');
    },
    finish: (): void => show('\n'),
  };
}

function count(n: number): string {
  return n.toLocaleString('en');
}

function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
