// Progress goes to standard error: standard output is for the results.
const width = 24;
const isTerminal = process.stderr.isTTY === true;

/** One line of what is going on; on a terminal it takes the place of the one before. */
export function tell(text: string): void {
  if (isTerminal) process.stderr.write(`\r\u001b[K${text}`);
  else process.stderr.write(`${text}\n`);
}

/** Leaves the last line standing, or takes it away. */
export function endTelling(text = ''): void {
  if (isTerminal) process.stderr.write('\r\u001b[K');
  if (text !== '') process.stderr.write(`${text}\n`);
}

/** A bar for work whose size is known; where there is no terminal, a line each tenth. */
export function progressBar(label: string, total: number): (done: number) => void {
  const startedAt = performance.now();
  let tenth = -1;
  return (done) => {
    const part = Math.min(done / total, 1);
    const seconds = (performance.now() - startedAt) / 1000;
    const left = part === 0 ? '' : `, ${Math.ceil((seconds / part) * (1 - part))} s left`;
    const filled = Math.round(part * width);
    if (isTerminal || Math.floor(part * 10) > tenth) {
      tell(
        `${label} [${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${Math.floor(part * 100)} %${left}`,
      );
    }
    tenth = Math.floor(part * 10);
  };
}
