// Sends hostile traffic to both APIs and prints what it costs:
//
//   npm run try:abuse -- [aborts] [timeouts] [stalls] [replies] [calls] [bodies] [slow] [idle] [--only REGEXP]
//
// aborts: breaks off 10,000 requests, and counts what stays open or in memory. timeouts: sends heads and bodies
// slowly, against the default limits. stalls: clients that never read. replies: memory and the delay of probes on a
// heap of 96 MB, while clients ask for long replies and read slowly or not at all. calls: the same for gRPC calls that
// never end. bodies: the delay of probes beside eight bodies a second that are as hard to parse as the limits allow.
// --only selects among the attacks of these three. slow: slowhttptest in its four modes, and the latency of other
// clients. idle: ten minutes of connections that idle as a balancer's do.
import { measureAborts } from './abuse/aborts.ts';
import { measureBodies } from './abuse/bodies.ts';
import { measureCalls } from './abuse/calls.ts';
import { measureIdle } from './abuse/idle.ts';
import { measureReplies } from './abuse/replies.ts';
import { measureSlow } from './abuse/slow.ts';
import { measureStalls } from './abuse/stalls.ts';
import { measureTimeouts } from './abuse/timeouts.ts';
import { endWith, readArguments } from './harness/arguments.ts';

const parts = {
  aborts: measureAborts,
  timeouts: measureTimeouts,
  stalls: measureStalls,
  replies: measureReplies,
  calls: measureCalls,
  bodies: measureBodies,
  slow: measureSlow,
  idle: measureIdle,
} as const;

const { positionals: asked, only } = readArguments({ only: '' }, { allowPositionals: true });
const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
if (unknown.length > 0) endWith(`there is no ${unknown.join(', ')}, but ${Object.keys(parts).join(', ')}`);

for (const [name, measure] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`${name}:`);
  for await (const line of measure(new RegExp(only))) console.log(`  ${line}`);
}
