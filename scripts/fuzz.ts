/**
 * Sends repeatable random input to both ports of a service and checks every response: there are no
 * undocumented 5xx, no request hangs, the process does not exit, and stored users are equal to the responses.
 *
 *   npm run try:fuzz -- [--inputs 100000] [--seed N]
 */
import { createProgress } from '../src/commands/progress.ts';
import { createService } from '../src/service/service.ts';
import { createMemoryStore } from '../src/storage/memory/store.ts';
import { fuzz } from '../test/kit/fuzz/run.ts';
import { readArguments } from './harness/arguments.ts';

const { inputs, seed } = readArguments({ inputs: 100_000, seed: Math.floor(Math.random() * 2 ** 31) });

const failures: unknown[] = [];
const repository = createMemoryStore();
await repository.users.create({ name: 'Ada' });
const service = createService({
  repository,
  port: 0,
  grpcPort: 0,
  observe: (event) => {
    if (event.type === 'failure') failures.push(event.cause);
  },
});
const { http, grpc = '' } = await service.listen();
const prototype = Object.getOwnPropertyNames(Object.prototype).join();
console.log(`seed ${seed}, ${inputs} inputs`);
const progress = createProgress(process.stderr, 'fuzz', inputs);

const { statuses, users } = await fuzz({
  httpPort: Number(new URL(http).port),
  grpcPort: Number(grpc.split(':')[1]),
  seed,
  inputs,
  onProgress: progress.update,
});
progress.finish();

let changed = 0;
for (const [id, body] of users) {
  const response = await fetch(`${http}/users/${id}`);
  const text = await response.text();
  // Another input may have changed the user. Its first version must equal the response.
  if (response.status === 200 && response.headers.get('etag') === '"1"' && text !== body) changed += 1;
}
const rows = [...statuses]
  .sort(([a], [b]) => a - b)
  .map(([status, count]) => `${status || 'none'}: ${count}`);
console.log(rows.join(', '));
console.log(`${users.size} users stored, ${changed} of them differ when read`);
console.log(`${failures.length} internal failures of the service`, ...failures.slice(0, 3));
const intact = Object.getOwnPropertyNames(Object.prototype).join() === prototype;
console.log(`Object.prototype ${intact ? 'unchanged' : 'CHANGED'}`);
await service.close({ timeoutMs: 2_000 });
process.exitCode = failures.length > 0 || changed > 0 || !intact ? 1 : 0;
