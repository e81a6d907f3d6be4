import { isDeepStrictEqual } from 'node:util';
import { readNumbers } from '../../check-range.ts';
import { preconditionFailed } from '../../domain/errors.ts';
import {
  byKind,
  idsExhausted,
  maxId,
  maxVersion,
  type RecordKind,
  recordKinds,
  versionsExhausted,
} from '../../domain/record.ts';
import type { ChangeOptions, Store } from '../../domain/repository.ts';
import { createStore, type EmbeddedStoreOptions, embeddedNumbers, type Row } from '../store.ts';
import {
  childTables,
  filterColumns,
  type Key,
  recordValues,
  rowDiffers,
  type Table,
  tables,
  toRecord,
  userMissing,
} from '../tables.ts';
import { KeptChanges } from './changes.ts';
import { createOnce } from './idempotency.ts';
import { matching, pageOf, patched, withoutVersion } from './rows.ts';

export type MemoryStoreOptions = EmbeddedStoreOptions;

/**
 * The simplest implementation of the contract, for tests and demos. No method awaits, so each is atomic. Rows are
 * frozen and replaced as a whole: returned rows never change and cannot be modified.
 */
export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const rows = byKind(() => new Map<number, Row>());
  const lastIds = byKind(() => 0);
  const { idempotencyTtlMs, changesKept } = readNumbers(options, embeddedNumbers);
  const once = createOnce(idempotencyTtlMs, options.now);
  const changes = new KeptChanges(changesKept);

  const put = (kind: RecordKind, row: Row): Row => {
    rows[kind].set(row.id, Object.freeze(row));
    lastIds[kind] = Math.max(lastIds[kind], row.id);
    return row;
  };
  const isMissingParent = (table: Table, record: object): boolean =>
    filterColumns(table, record).some(([{ parent }, id]) => parent && !rows[parent].has(Number(id)));

  return createStore({
    ...(changesKept > 0 && { changes }),
    collections: byKind((kind) => {
      const table = tables[kind];
      const find = (key: Key): Row | undefined => {
        const row = rows[kind].get(key[0]);
        return row && isDeepStrictEqual(recordValues(table.keys, row), key) ? row : undefined;
      };
      return {
        get: find,
        list: (filter, query) => pageOf(matching(table, rows[kind], filter).map(withoutVersion), query),
        count: (filter) => matching(table, rows[kind], filter).length,
        create(record, options) {
          return once(options, () => {
            if (isMissingParent(table, record)) return undefined;
            if (lastIds[kind] >= maxId) throw idsExhausted();
            const values = recordValues(table.given, record);
            const row = put(kind, toRecord(table.columns, [lastIds[kind] + 1, ...values, 1]));
            changes.add(`${table.record}.created`, row, options?.origin);
            return row;
          });
        },
        update(key, patch, options) {
          const row = find(key);
          if (row === undefined) return undefined;
          checkExpected(table, row, options);
          const changed = patched(row, patch);
          if (isDeepStrictEqual(changed, row)) return row;
          if (row.version >= maxVersion) throw versionsExhausted(table.record, row.id);
          const next = put(kind, { ...changed, version: row.version + 1 });
          changes.add(`${table.record}.updated`, next, options?.origin);
          return next;
        },
        delete(key, options) {
          const row = find(key);
          if (row === undefined) return false;
          checkExpected(table, row, options);
          for (const child of childTables(table)) {
            for (const below of matching(child, rows[child.name], { userId: row.id })) {
              rows[child.name].delete(below.id);
              changes.add(`${child.record}.deleted`, below, options?.origin);
            }
          }
          rows[kind].delete(row.id);
          changes.add(`${table.record}.deleted`, row, options?.origin);
          return true;
        },
      };
    }),
    ping: () => undefined,
    close: () => undefined,
    summary: () => byKind((kind) => ({ count: rows[kind].size, lastId: lastIds[kind] })),
    exportRows(kind, afterId, limit) {
      const after = [...rows[kind].values()].filter((row) => row.id > afterId);
      return after.sort((a, b) => a.id - b.id).slice(0, limit);
    },
    importRows(kind, given) {
      const added = new Map<number, Row>();
      for (const row of given) {
        const known = rows[kind].get(row.id) ?? added.get(row.id);
        if (known !== undefined && !isDeepStrictEqual(known, row)) throw rowDiffers(kind, row.id);
        if (isMissingParent(tables[kind], row)) throw userMissing(kind, row.id);
        if (known === undefined) added.set(row.id, row);
      }
      for (const row of added.values()) put(kind, { ...row });
      if (added.size > 0) changes.restart();
      return added.size;
    },
    continueIds(last) {
      for (const kind of recordKinds) lastIds[kind] = Math.max(lastIds[kind], last[kind]);
    },
  });
}

function checkExpected({ record }: Table, { id, version }: Row, { expected }: ChangeOptions = {}): void {
  if (expected?.includes(version) === false) throw preconditionFailed(record, id);
}
