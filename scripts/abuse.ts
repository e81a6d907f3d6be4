// Mistreats the HTTP face and prints what becomes of it:
//
//   npm run try:abuse -- [aborts] [timeouts] [stalls] [slow] [idle]
//
// aborts: 10,000 requests broken off, and what stays open or in memory. timeouts: heads and bodies that
// drip in, against the default limits. stalls: clients that never read. slow: slowhttptest in its four
// modes, and what it costs everybody else. idle: ten minutes of connections that idle as a balancer's do.
import { measureAborts } from './abuse/aborts.ts';
import { measureIdle } from './abuse/idle.ts';
import { measureSlow } from './abuse/slow.ts';
import { measureStalls } from './abuse/stalls.ts';
import { measureTimeouts } from './abuse/timeouts.ts';

const parts = {
  aborts: measureAborts,
  timeouts: measureTimeouts,
  stalls: measureStalls,
  slow: measureSlow,
  idle: measureIdle,
} as const;

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
if (unknown.length > 0) throw new Error(`${unknown.join(', ')}: there are ${Object.keys(parts).join(', ')}`);

for (const [name, measure] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`${name}:`);
  for await (const line of measure()) console.log(`  ${line}`);
}
