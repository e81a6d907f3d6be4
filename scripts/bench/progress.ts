// Progress goes to standard error, because standard output is for the results.
const isTerminal = process.stderr.isTTY === true;
let lastSubject = '';

/** Prints a line of progress. On a terminal it replaces the last line. Elsewhere each subject gets one line. */
export function report(text: string): void {
  const [subject = ''] = text.split(/ round | \d/);
  if (isTerminal) process.stderr.write(`\r\u001b[K${text}`);
  else if (subject !== lastSubject) process.stderr.write(`${text}\n`);
  lastSubject = subject;
}

export function endProgress(): void {
  if (isTerminal) process.stderr.write('\r\u001b[K');
}
