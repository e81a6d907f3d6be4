// Runs the service with a planted defect. `npm run simulate` starts this in the place of `src/main.ts`.
import { parseArgs } from 'node:util';
import { createService } from '../../src/service.ts';
import { openStore } from '../../src/storage/open.ts';
import { plant } from './defects.ts';

const { values } = parseArgs({
  options: {
    database: { type: 'string', default: 'memory:' },
    port: { type: 'string', default: '0' },
    'grpc-port': { type: 'string', default: '0' },
    defect: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
  },
});
const store = await openStore(values.database);
const service = createService({
  repository: plant(store, values.defect, Number(values.seed)),
  port: Number(values.port),
  grpcPort: Number(values['grpc-port']),
});
process.on('SIGHUP', () => undefined);
process.once('SIGTERM', async () => {
  await service.close();
  await store.close();
});
await service.listen();
