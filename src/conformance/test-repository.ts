import { describe } from 'node:test';
import { testFeed } from './feed.ts';
import { testFeedReads } from './feed-reads.ts';
import { createFixture, type OpenRepository, type RepositoryTraits } from './fixture.ts';
import { testIdempotency } from './idempotency.ts';
import { nestedKinds, testedKinds } from './kinds.ts';
import { testLifecycle } from './lifecycle.ts';
import { testLists } from './lists.ts';
import { testNested } from './nested.ts';
import { testPositions } from './positions.ts';
import { testRecordLists } from './record-lists.ts';
import { testRecords } from './records.ts';
import { testUsers } from './users.ts';

export type { OpenOptions, OpenRepository, RepositoryTraits } from './fixture.ts';
export { testTransfer } from './test-transfer.ts';

/**
 * Declares the tests (`node:test`) that every repository must pass, ours and those of embedders. They check the
 * contract in `domain/repository.ts`. The name of the suite includes what they do not test.
 */
export function testRepository(name: string, open: OpenRepository, traits: RepositoryTraits = {}): void {
  const fixture = createFixture(open, traits);
  const untested = [
    traits.feed ? [] : 'the feed of changes, which it lacks',
    traits.reopen === undefined ? 'restarts, which lose its data' : [],
    traits.countKeys === undefined ? 'the deletion of expired keys' : [],
  ].flat();
  const note = untested.length > 0 ? ` (not tested: ${untested.join('; ')})` : '';
  describe(`${name}, as a repository${note}`, () => {
    for (const tested of testedKinds) {
      testRecords(fixture, tested);
      testRecordLists(fixture, tested);
    }
    testUsers(fixture);
    testLists(fixture);
    testPositions(fixture);
    for (const nested of nestedKinds) testNested(fixture, nested);
    testIdempotency(fixture);
    if (traits.feed) {
      testFeed(fixture);
      testFeedReads(fixture);
    }
    testLifecycle(fixture);
  });
}
