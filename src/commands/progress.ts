/** The output for progress, such as `process.stderr`. */
export interface ProgressSink {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export interface Progress {
  /** `done` is the count so far. */
  update(done: number): void;
  finish(): void;
}

const redrawEveryMs = 100;
const lineEveryMs = 5_000;
const barWidth = 30;

/**
 * Shows the progress of long work with its rate and the remaining time: as a bar on a terminal, else in lines.
 * Without a total, it shows only the count and the rate.
 */
export function createProgress(sink: ProgressSink, label: string, total?: number): Progress {
  const startedAt = performance.now();
  const isTerminal = sink.isTTY === true;
  let shownAt = isTerminal ? Number.NEGATIVE_INFINITY : startedAt;
  let latest = 0;

  const line = (): string => {
    const seconds = (performance.now() - startedAt) / 1000;
    const rate = seconds > 0 ? latest / seconds : 0;
    const speed = `${count(Math.round(rate))}/s`;
    if (total === undefined) return `${label} ${count(latest)} (${speed})`;
    const share = total === 0 ? 1 : Math.min(latest / total, 1);
    const left = rate > 0 && latest < total ? `, ${duration((total - latest) / rate)} left` : '';
    const filled = Math.round(share * barWidth);
    const bar = isTerminal ? `[${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}] ` : '';
    const counts = `${count(latest)} of ${count(total)}`;
    return `${label} ${bar}${Math.floor(share * 100)} % (${counts}, ${speed}${left})`;
  };
  const show = (ending: string): void => {
    const text = line();
    sink.write(isTerminal ? `\r${text.slice(0, (sink.columns ?? 120) - 1)}\u001b[K${ending}` : `${text}\n`);
  };
  return {
    update(done) {
      latest = done;
      const now = performance.now();
      if (now - shownAt < (isTerminal ? redrawEveryMs : lineEveryMs)) return;
      shownAt = now;
      show('');
    },
    finish() {
      show('\n');
    },
  };
}

function count(n: number): string {
  return n.toLocaleString('en');
}

function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
