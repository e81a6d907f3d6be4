/** Loaded before a program: prints how many module files that loads until it is told to end. */
import { registerHooks } from 'node:module';

const files = new Set();
registerHooks({
  load(url, context, next) {
    if (url.startsWith('file:')) files.add(url);
    return next(url, context);
  },
});
process.on('exit', () =>
  process.stdout.write(`${JSON.stringify({ event: 'modules', files: files.size })}\n`),
);
