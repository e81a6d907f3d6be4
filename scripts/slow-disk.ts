// Measures the effect of writes to a slow disk on reads: the p99 of reads alone, and beside writes whose
// commits wait for the disk:
//
//   npm run try:slow-disk -- [--sync-ms 50] [--rounds 8] [--reads 1000] [--writes 200] [--seconds 2]
//
// strace delays only every fsync and fdatasync of the service by --sync-ms. With 0 the disk is not delayed.
// The rates of reads and writes are fixed, and each request is measured from the time at which it was due.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readArguments } from './harness/arguments.ts';
import { type LoadedServer, makeDatabase, offer, startServer } from './harness/offer.ts';
import { slowSyncs } from './harness/slow-syncs.ts';

const values = readArguments({ 'sync-ms': 50, rounds: 8, reads: 1_000, writes: 200, seconds: 2 });
const syncMs = values['sync-ms'];
const users = 10_000;
const offerAt = ({ port, pid }: LoadedServer, writesInTen: 0 | 10, rate: number) =>
  offer({
    port,
    pid,
    rate,
    connections: 500,
    warmUpMs: 500,
    measureMs: values.seconds * 1000,
    writesInTen,
    users,
  });

const folder = await mkdtemp(join(tmpdir(), 'slow-disk-'));
const file = join(folder, 'users.db');
await makeDatabase(file, users);
const server = await startServer(['--database', `sqlite:${file}`], slowSyncs(syncMs));
const rounds: { alone: number; beside: number; writeP50: number }[] = [];
let failed = 0;
try {
  // Run once to warm up, and then in turns.
  await offerAt(server, 0, values.reads);
  for (let round = 1; round <= values.rounds; round += 1) {
    const quiet = await offerAt(server, 0, values.reads);
    const [reads, writes] = await Promise.all([
      offerAt(server, 0, values.reads),
      offerAt(server, 10, values.writes),
    ]);
    rounds.push({ alone: quiet.p99, beside: reads.p99, writeP50: writes.p50 });
    for (const report of [quiet, reads, writes]) failed += report.failed + report.refused;
    console.log(
      `round ${round}: reads alone p99 ${quiet.p99} ms; beside writes ${reads.p99} ms; ` +
        `${writes.accepted} writes/s, p50 ${writes.p50} ms, p99 ${writes.p99} ms`,
    );
  }
} finally {
  await server.end();
  await rm(folder, { recursive: true });
}
// Other load on the machine only adds time in some rounds. Reads that wait for commits would be slow in all.
const least = (figure: 'alone' | 'beside' | 'writeP50') => Math.min(...rounds.map((round) => round[figure]));
const [readP99Alone, readP99BesideWrites, writeP50] = [least('alone'), least('beside'), least('writeP50')];
const ratio = Math.round((100 * readP99BesideWrites) / readP99Alone) / 100;
console.log(JSON.stringify({ syncMs, readP99Alone, readP99BesideWrites, ratio, writeP50, failed }));
// A latency of 0 means that no response was measured.
const isUnmeasured = [readP99Alone, readP99BesideWrites, writeP50].includes(0);
const isSlow = syncMs > 0 && readP99BesideWrites > readP99Alone + syncMs / 2;
if (failed > 0 || isUnmeasured || isSlow) process.exitCode = 1;
