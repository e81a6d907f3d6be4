import type { Change, ChangePage, ChangeQuery, ChangeType, Origin } from '../../domain/change.ts';
import { ChangesGone, importPosition, isWanted, toChangePage } from '../../domain/change.ts';

/** A feed that keeps at least the last `changesKept` changes; none if it is 0. */
export function memoryFeed(changesKept: number) {
  let changes: Change[] = [];
  let last = 0;
  return {
    add(type: ChangeType, record: Change['record'], origin: Origin = {}): void {
      if (changesKept === 0) return;
      last += 1;
      changes.push({ position: last, type, time: new Date().toISOString(), record, origin });
      // Remove in steps: moving all changes for each added one would take longer than the write.
      if (changes.length >= changesKept * 2) changes = changes.slice(-changesKept);
    },

    /** Removes all changes, after a write that the feed does not contain. */
    restart(): void {
      last = Math.max(last + 1, importPosition());
      changes = [];
    },

    read(query: ChangeQuery): ChangePage {
      const { after, limit } = query;
      // The kept positions have no gaps.
      const gone = last - changes.length;
      if (after < gone || after > last) throw new ChangesGone(after, gone + 1);
      const matching: Change[] = [];
      for (let i = after - gone; i < changes.length && matching.length < limit; i += 1) {
        const change = changes[i];
        if (change !== undefined && isWanted(change, query)) matching.push(change);
      }
      return toChangePage(matching, limit, last, last);
    },

    position: () => last,
  };
}
