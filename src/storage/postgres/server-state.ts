import { recordKinds } from '../../domain/record.ts';
import { childTables, tables } from '../tables.ts';

const keyedTables = [...recordKinds, 'idempotency_keys', 'changes'];
const tableNames = [...keyedTables, 'change_feed'];
const sequences = [...recordKinds.map((kind) => `${kind}_id_seq`), 'changes_position_seq'];
const deletionFunctions = childTables(tables.users).map(({ name }) => `take_${name}`);

export interface ServerState {
  readonly server_version: string;
  readonly server_encoding: string;
  readonly read_only: boolean;
  readonly collation: string;
  readonly other_collations: number;
  readonly may_create: boolean;
  /** The schema of the tables, or in which they will be created, quoted for SQL; NULL if the user may use none. */
  readonly schema: string | null;
  /** Whether the user owns the tables; also true if there are none yet. */
  readonly owns: boolean;
  /** Whether the user may execute the functions that reads from standbys need. */
  readonly may_compare_logs: boolean;
  /** The tables, sequences and functions that the user may not use. Of a standby, only the tables to read. */
  readonly denied: readonly string[];
  readonly filtered: readonly string[];
  /** The tables that need a primary key, but have none. */
  readonly keyless: readonly string[];
  /** The positions that a session of the feed takes at once; NULL if there is no feed. */
  readonly cache: number | null;
  /** How many more sessions server, database and role allow; 0 if parallel workers of queries make the list longer. */
  readonly free: number;
}

/** The tables of which row level security may hide rows from the user, as a JSON array in SQL. */
export const filteredTables = `to_json(ARRAY(SELECT name FROM unnest('{meta,${tableNames}}'::text[]) AS name
  WHERE row_security_active(to_regclass(name))))`;

export const stateSql = `
  WITH limits AS (SELECT datconnlimit, rolconnlimit FROM pg_database, pg_roles
    WHERE datname = current_database() AND rolname = session_user AND NOT rolsuper)
  SELECT current_setting('server_version') AS server_version, current_setting('server_encoding') AS server_encoding,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only,
    (SELECT datcollate FROM pg_database WHERE datname = current_database()) AS collation,
    (SELECT count(*) FROM pg_attribute JOIN pg_collation ON pg_collation.oid = attcollation
      WHERE attrelid IN (${recordKinds.map((kind) => `to_regclass('${kind}')`)}) AND collname <> 'C')::int AS other_collations,
    quote_ident(namespace.nspname) AS schema,
    coalesce(has_schema_privilege(namespace.oid, 'CREATE'), false) AS may_create,
    coalesce(pg_has_role((SELECT relowner FROM pg_class WHERE oid = to_regclass('meta')), 'USAGE'), true) AS owns,
    coalesce(has_function_privilege(to_regprocedure('pg_control_system()'), 'EXECUTE')
      AND has_function_privilege(to_regprocedure('pg_control_checkpoint()'), 'EXECUTE'), false) AS may_compare_logs,
    to_json(ARRAY(SELECT name FROM unnest('{${tableNames}}'::text[]) AS name
      WHERE EXISTS (SELECT FROM unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS privilege
        WHERE NOT has_table_privilege(to_regclass(name), privilege)
          AND (privilege = 'SELECT' OR NOT pg_is_in_recovery()))
      UNION ALL SELECT name FROM unnest('{${sequences}}'::text[]) AS name WHERE NOT pg_is_in_recovery()
        AND NOT (has_sequence_privilege(to_regclass(name), 'SELECT')
          AND has_sequence_privilege(to_regclass(name), 'UPDATE'))
      UNION ALL SELECT name FROM unnest('{${deletionFunctions}}'::text[]) AS name WHERE NOT pg_is_in_recovery()
        AND NOT has_function_privilege(to_regprocedure(name || '(integer)'), 'EXECUTE'))) AS denied,
    ${filteredTables} AS filtered,
    to_json(ARRAY(SELECT name FROM unnest('{${keyedTables}}'::text[]) AS name
      WHERE NOT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass(name) AND indisprimary))) AS keyless,
    (SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass('changes_position_seq')) AS cache,
    (SELECT greatest(0, least(current_setting('max_connections')::int - count(*),
        (SELECT datconnlimit FROM limits WHERE datconnlimit >= 0) - count(*) FILTER (WHERE datname = current_database()),
        (SELECT rolconnlimit FROM limits WHERE rolconnlimit >= 0) - count(*) FILTER (WHERE usename = session_user)))::int
      FROM pg_stat_activity WHERE usename <> '' AND datname <> '') AS free
  FROM (SELECT coalesce((SELECT relnamespace FROM pg_class WHERE oid = to_regclass('meta')),
    to_regnamespace(quote_ident(current_schema())))::oid AS oid) AS used
  LEFT JOIN pg_namespace AS namespace ON namespace.oid = used.oid`;
