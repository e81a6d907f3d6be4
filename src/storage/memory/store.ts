import { isDeepStrictEqual } from 'node:util';
import type { Origin } from '../../domain/change.ts';
import { idsExhausted, keyReused } from '../../domain/errors.ts';
import type { Row } from '../../domain/kinds.ts';
import { type ListQuery, type Position, positionOf, type Sort } from '../../domain/list-query.ts';
import { byKind, maxId, type RecordKind, recordKinds } from '../../domain/record.ts';
import type { Created, CreateOptions, Store } from '../../domain/repository.ts';
import { compareText } from '../../domain/text.ts';
import { readStoreNumbers, type SharedStoreOptions } from '../options.ts';
import { createStore, type TableOperations } from '../store.ts';
import { childTables, type Key, recordValues, type Table, tables, toRecord } from '../tables.ts';
import { memoryFeed } from './changes.ts';

export type MemoryStoreOptions = Pick<SharedStoreOptions, 'now' | 'idempotencyTtlMs' | 'changesKept'>;

/** The simplest store, for tests and demos. No method awaits, so each is atomic. Stored rows are frozen. */
export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const rows = byKind(() => new Map<number, Row>());
  const lastIds = byKind(() => 0);
  const { idempotencyTtlMs, changesKept } = readStoreNumbers(options);
  const once = createOnce(idempotencyTtlMs, options.now);
  const changes = memoryFeed(changesKept);

  const put = (kind: RecordKind, row: Row): Row => {
    rows[kind].set(row.id, Object.freeze(row));
    lastIds[kind] = Math.max(lastIds[kind], row.id);
    return row;
  };
  const isMissingParent = (table: Table, record: object): boolean =>
    table.entriesOf(record).some(([{ parent }, id]) => parent && !rows[parent].has(Number(id)));

  const remove = (table: Table, row: Row, origin: Origin | undefined): void => {
    rows[table.name].delete(row.id);
    changes.add(`${table.record}.deleted`, row, origin);
  };

  const operationsOf = (kind: RecordKind): TableOperations => {
    const table = tables[kind];
    const find = (key: Key): Row | undefined => {
      const row = rows[kind].get(key[0]);
      // A post of another user is not found.
      return row && isDeepStrictEqual(recordValues(table.keys, row), key) ? row : undefined;
    };
    return {
      get: find,
      list: (query) => pageOf(matching(table, rows[kind], query.filter), query),
      count: (filter) => matching(table, rows[kind], filter).length,
      create(record, options) {
        return once(options, () => {
          if (isMissingParent(table, record)) return undefined;
          if (lastIds[kind] >= maxId) throw idsExhausted();
          const values = recordValues(table.draftColumns, record);
          const row = put(kind, toRecord(table.columns, [lastIds[kind] + 1, ...values, 1]));
          changes.add(`${table.record}.created`, row, options?.origin);
          return row;
        });
      },
      update(key, patch, options) {
        const row = find(key);
        if (row === undefined) return undefined;
        table.checkVersion(row, options?.expected);
        const next = table.patched(row, patch);
        if (next === row) return row;
        put(kind, next);
        changes.add(`${table.record}.updated`, next, options?.origin);
        return next;
      },
      delete(key, options) {
        const row = find(key);
        if (row === undefined) return false;
        table.checkVersion(row, options?.expected);
        for (const child of childTables(table)) {
          const owned = matching(child, rows[child.name], { userId: row.id });
          for (const one of owned.sort((a, b) => a.id - b.id)) remove(child, one, options?.origin);
        }
        remove(table, row, options?.origin);
        return true;
      },
    };
  };

  return createStore({
    ...(changesKept > 0 && { changes }),
    operations: byKind(operationsOf),
    ping: () => undefined,
    close: () => undefined,
    summary: () => byKind((kind) => ({ count: rows[kind].size, lastId: lastIds[kind] })),
    exportRows(kind, afterId, limit) {
      const after = [...rows[kind].values()].filter((row) => row.id > afterId);
      return after.sort((a, b) => a.id - b.id).slice(0, limit);
    },
    importRows(kind, given) {
      const table = tables[kind];
      // Checked before the first one is stored, so that a batch is added as a whole. It may contain a record twice.
      const added = new Map<number, Row>();
      for (const one of given) {
        const row = toRecord<Row>(table.columns, recordValues(table.columns, one));
        const known = rows[kind].get(row.id) ?? added.get(row.id);
        if (known !== undefined && !isDeepStrictEqual(known, row)) throw table.rowDiffers(row.id);
        if (isMissingParent(table, row)) throw table.userMissing(row.id);
        if (known === undefined) added.set(row.id, row);
      }
      for (const row of added.values()) put(kind, row);
      if (added.size > 0) changes.restart();
      return added.size;
    },
    continueIds(last) {
      if (recordKinds.some((kind) => lastIds[kind] < last[kind])) changes.restart();
      for (const kind of recordKinds) lastIds[kind] = Math.max(lastIds[kind], last[kind]);
    },
  });
}

/**
 * The rows of a page and one more, without their versions. Rows after a position are found even if the row of the
 * position was deleted.
 */
function pageOf(rows: readonly Row[], { sort, start, limit }: ListQuery<string>): object[] {
  const sorted = rows.toSorted((a, b) => compare(sort, positionOf(a, sort), positionOf(b, sort)));
  const rest =
    'offset' in start
      ? sorted.slice(start.offset)
      : sorted.filter((row) => compare(sort, positionOf(row, sort), start.after) > 0);
  return rest.slice(0, limit + 1).map(({ version: _, ...row }) => row);
}

function compare(sort: Sort<string>, a: Position, b: Position): number {
  for (const [i, { descending }] of sort.entries()) {
    const [x, y] = [a[i] ?? '', b[i] ?? ''];
    const order = typeof x === 'number' ? x - Number(y) : compareText(x, String(y));
    if (order !== 0) return descending ? -order : order;
  }
  return 0;
}

function matching(table: Table, rows: ReadonlyMap<number, Row>, filter: object): Row[] {
  const wanted = table.entriesOf(filter);
  return [...rows.values()].filter((row) =>
    wanted.every(([{ field, byPrefix }, value]) => {
      const has: unknown = Reflect.get(row, field);
      if (typeof value === 'object') return value.some((one) => one === has);
      return byPrefix === undefined ? has === value : String(has).startsWith(String(value));
    }),
  );
}

/** Makes a creation happen once for a key, until the key expires. A creation without a result is not kept. */
function createOnce(ttlMs: number, now = Date.now) {
  // The oldest first.
  const results = new Map<string, { fingerprint: string; value: Row; expiresAt: number }>();
  return ({ idempotency }: CreateOptions = {}, create: () => Row | undefined): Created<Row> | undefined => {
    const usedAt = now();
    const kept = idempotency && results.get(idempotency.key);
    if (kept !== undefined && kept.expiresAt > usedAt) {
      if (kept.fingerprint !== idempotency?.fingerprint) throw keyReused();
      return { value: kept.value, replayed: true };
    }
    const value = create();
    if (value === undefined) return undefined;
    if (idempotency !== undefined) {
      for (const [old, { expiresAt }] of results) {
        if (expiresAt > usedAt) break;
        results.delete(old);
      }
      results.set(idempotency.key, { ...idempotency, value, expiresAt: usedAt + ttlMs });
    }
    return { value, replayed: false };
  };
}
