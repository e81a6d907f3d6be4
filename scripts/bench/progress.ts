// Progress goes to standard error: standard output is for the results.
const isTerminal = process.stderr.isTTY === true;
let lastSubject = '';

/** One line of what is going on. On a terminal it replaces the last one; elsewhere each subject gets one line. */
export function report(text: string): void {
  const [subject = ''] = text.split(/ round | \d/);
  if (isTerminal) process.stderr.write(`\r\u001b[K${text}`);
  else if (subject !== lastSubject) process.stderr.write(`${text}\n`);
  lastSubject = subject;
}

export function endProgress(): void {
  if (isTerminal) process.stderr.write('\r\u001b[K');
}
