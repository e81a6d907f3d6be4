// Mistreats the HTTP face and prints what becomes of it:
//
//   npm run try:abuse -- [aborts] [timeouts] [stalls] [replies] [slow] [idle] [--only REGEXP]
//
// aborts: 10,000 requests broken off, and what stays open or in memory. timeouts: heads and bodies that
// drip in, against the default limits. stalls: clients that never read. replies: what long replies
// to clients that read slowly or not at all take of a heap of 96 MB, and how late probes are. slow: slowhttptest in its four
// modes, and what it costs everybody else. --only chooses among the attacks of replies. idle: ten minutes of connections that idle as a balancer's do.
import { parseArgs } from 'node:util';
import { measureAborts } from './abuse/aborts.ts';
import { measureIdle } from './abuse/idle.ts';
import { measureReplies } from './abuse/replies.ts';
import { measureSlow } from './abuse/slow.ts';
import { measureStalls } from './abuse/stalls.ts';
import { measureTimeouts } from './abuse/timeouts.ts';

const parts = {
  aborts: measureAborts,
  timeouts: measureTimeouts,
  stalls: measureStalls,
  replies: measureReplies,
  slow: measureSlow,
  idle: measureIdle,
} as const;

const { positionals: asked, values } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: '' } },
});
const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
if (unknown.length > 0) throw new Error(`${unknown.join(', ')}: there are ${Object.keys(parts).join(', ')}`);

for (const [name, measure] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`${name}:`);
  for await (const line of measure(new RegExp(values.only))) console.log(`  ${line}`);
}
