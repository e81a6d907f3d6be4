// Sends hostile traffic to both APIs and prints what it costs:
//
//   npm run try:abuse -- [replies] [calls] [bodies] [slow] [idle] [--only REGEXP]
//
// replies: memory and the delay of probes on a heap of 96 MB, while clients ask for long replies and read slowly or not
// at all. calls: the same for gRPC calls that never end. bodies: the delay of probes beside eight bodies a second that
// are as hard to parse as the limits allow. --only selects among the attacks of these three. slow: slowhttptest in its
// four modes, and the latency of other clients. idle: ten minutes of connections that idle as a balancer's do.
//
// The exit code is 1 if the service ends, if 1 % of the probes on a kept connection get no 200 within 10 s, or if an
// idle connection is reset.
import { measureBodies } from './abuse/bodies.ts';
import { measureCalls } from './abuse/calls.ts';
import { measureIdle } from './abuse/idle.ts';
import { measureReplies } from './abuse/replies.ts';
import { measureSlow } from './abuse/slow.ts';
import { endWith, readArguments } from './harness/arguments.ts';

const parts = {
  replies: measureReplies,
  calls: measureCalls,
  bodies: measureBodies,
  slow: measureSlow,
  idle: measureIdle,
} as const;

const { positionals: asked, only } = readArguments({ only: '' }, { allowPositionals: true });
const unknown = asked.filter((name) => !Object.hasOwn(parts, name));
if (unknown.length > 0) endWith(`there is no ${unknown.join(', ')}, but ${Object.keys(parts).join(', ')}`);

let lines = 0;
for (const [name, measure] of Object.entries(parts)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  console.log(`${name}:`);
  for await (const line of measure(new RegExp(only))) {
    console.log(`  ${line}`);
    lines += 1;
  }
}
if (lines === 0) endWith(`no attack matches ${only}`);
