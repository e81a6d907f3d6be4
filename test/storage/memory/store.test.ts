import { testRepository } from '../../../src/conformance/test-repository.ts';
import { testTransfer } from '../../../src/conformance/test-transfer.ts';
import { createMemoryStore } from '../../../src/storage/memory/store.ts';

testRepository('memory', async (options) => createMemoryStore(options), { feed: true });
testTransfer('memory', async () => createMemoryStore());
