import type { Client } from 'pg';
import { messageOf } from '../../domain/errors.ts';
import { recordKinds } from '../../domain/record.ts';
import { readStoreNumbers, storeNumbers } from '../options.ts';
import { type ExamineOptions, type Finding, fail, ok, warn } from '../tools.ts';
import { Connection, firstOf, types } from './connection.ts';
import { type Host, hostsOf, loadDriver, parseHosts } from './hosts.ts';
import { feedConnections } from './pool.ts';
import { findVersion, hiddenRows, schemaVersion } from './schema.ts';
import { type ServerState, stateSql } from './server-state.ts';

const oldestVersion = 12;
const timeoutMs = 5_000;
const ownTables = 'make the user the owner of the tables';
const showRows = `${ownTables}, or add policies that show all rows`;
// For calls, for the feed of changes, and for pings.
const connectionsOfProcess = storeNumbers.poolSize[0] + feedConnections + 1;

/** Examines each server of a database URL, and changes nothing. The hosts of standbys need not take writes. */
export async function examinePostgres(url: string, options: ExamineOptions = {}): Promise<Finding[]> {
  const { Client } = await loadDriver();
  const { isStandby = false } = options;
  const hosts = hostsOf(Client, url);
  const writable = !isStandby && parseHosts(Client, url).writable;
  const results = await Promise.allSettled(hosts.map((host) => examineHost(Client, host, options)));
  const answers = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const hasPrimary = answers.some(({ takesWrites }) => takesWrites);
  const findings = results.flatMap((result, i) => {
    if (result.status === 'fulfilled') return result.value.findings;
    // With a primary elsewhere, the service runs without this host.
    const problem = hasPrimary ? warn : fail;
    const what = `${hosts[i]?.name} cannot be used: ${messageOf(result.reason)}`;
    return [{ ...problem(what, 'check the URL, the server and the network'), isUnreachable: true as const }];
  });
  if (isStandby || hasPrimary || answers.length === 0) return findings;
  const problem = writable ? fail : warn;
  return [...findings, problem('no host takes writes', 'promote a standby, or name the primary in the URL')];
}

async function examineHost(Driver: typeof Client, { name, url }: Host, options: ExamineOptions) {
  const application_name = 'users-service doctor';
  const client = new Driver({ connectionString: url, types, query_timeout: timeoutMs, application_name });
  // As the service opens its connections, so that what it rejects or warns of is found. But the server ends a statement
  // that waits for a lock before `query_timeout` does, because its error names the lock.
  const connection = new Connection(client);
  const findings: Finding[] = [];
  const add = (finding: Finding) => findings.push({ ...finding, what: `${name}: ${finding.what}` });
  const warnOf = (problem: string) => add(warn(problem, 'change the settings of the server or of the role'));
  const numbers = readStoreNumbers({ lockTimeoutMs: timeoutMs / 2 });
  await connection.open({ ...numbers, writable: false, warn: warnOf }, timeoutMs);
  try {
    const state = firstOf((await client.query<ServerState>(stateSql)).rows);
    for await (const finding of examineServer(client, state, options)) add(finding);
    return { takesWrites: !state.read_only, findings };
  } finally {
    await connection.close();
  }
}

async function* examineServer(
  client: Client,
  state: ServerState,
  { isStandby = false, processes = 1, hasStandbys = false, hasFeed = true }: ExamineOptions,
) {
  const { server_version: release, server_encoding: encoding, other_collations: others, free } = state;
  const version = await findVersion(client);
  const schema = examineSchema(version, state);
  const server = `PostgreSQL ${release}, ${state.read_only ? 'a standby or read-only' : 'takes writes'}`;
  yield Number.parseInt(release, 10) >= oldestVersion
    ? ok(server)
    : fail(server, `use PostgreSQL ${oldestVersion} or newer`);
  const template = 'create the database with --encoding=UTF8 --template=template0';
  yield encoding === 'UTF8' ? ok('the encoding is UTF8') : fail(`the encoding is ${encoding}`, template);
  // Without a version, any tables are those of another program.
  yield others === 0 || version === 0
    ? ok(`texts sort by code point, whatever the collation of the database (${state.collation})`)
    : fail(`${others} columns have another collation than "C"`, 'export, and import into a new database');
  yield schema;
  if (state.filtered.length > 0) yield warn(hiddenRows(state.filtered), showRows);
  yield examineEncryption(client);
  if (version === schemaVersion && schema.level === 'ok') {
    yield* await examineIds(client);
    if (hasFeed && !isStandby && Number(state.cache) > 1) {
      const remedy = 'set CACHE 1, or use --changes-kept off';
      yield fail(`the sequence changes_position_seq has CACHE ${state.cache}`, remedy);
    }
  }
  if (hasStandbys && !state.may_compare_logs) {
    const functions = 'pg_control_system() and pg_control_checkpoint()';
    const remedy = 'run GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint() TO the user';
    yield warn(`the user may not execute ${functions}, so the primary serves all reads`, remedy);
  }
  const needed = processes * connectionsOfProcess * (hasStandbys ? 2 : 1);
  const allowed = `it allows ${free} more connections`;
  yield free >= needed
    ? ok(allowed)
    : warn(
        `${allowed}, and this copy of the service opens up to ${needed}`,
        'raise the limit of the server, database or role',
      );
}

/** Whether the connections of the driver are encrypted, and check the certificate of the server. */
function examineEncryption({ ssl }: { ssl: unknown }): Finding {
  if (ssl === false) return ok('the connection is not encrypted');
  const text = 'the connection is encrypted';
  return Object(ssl).rejectUnauthorized === false
    ? warn(`${text}, but the certificate of the server is not checked`, 'use sslmode=verify-full')
    : ok(text);
}

/** Finds ids and positions that the service has not assigned, such as after a logical replication. */
async function examineIds(client: Client): Promise<Finding[]> {
  const last = {
    ...Object.fromEntries(recordKinds.map((kind) => [`${kind}_id_seq`, `SELECT max(id) FROM ${kind}`])),
    changes_position_seq: 'SELECT GREATEST((SELECT max(position) FROM changes), max(gone)) FROM change_feed',
  };
  const behind = Object.entries(last).map(
    ([name, sql]) => `
    SELECT '${name}' AS name, id FROM (SELECT (${sql})::bigint AS id) AS used
    WHERE id > CASE WHEN has_sequence_privilege('${name}', 'SELECT')
      THEN coalesce(pg_sequence_last_value('${name}'), 0) END`,
  );
  const { rows } = await client.query<{ name: string; id: number }>(behind.join(' UNION ALL '));
  return rows.map(({ name, id }) =>
    fail(`the sequence ${name} is behind ${id}`, `run SELECT setval('${name}', ${id})`),
  );
}

function examineSchema(version: number, state: ServerState): Finding {
  const { schema, may_create, owns, read_only, denied, keyless } = state;
  const text = `the schema has version ${version}`;
  if (schema === null) {
    const remedy = 'create the schema, or run GRANT USAGE ON SCHEMA … TO the user';
    return fail('the search_path has no schema that the user may use', remedy);
  }
  if (version > 0 && denied.length > 0) {
    // Without the sequences, the service works, but not `export`, `import` and `copy`.
    const report = denied.every((name) => name.endsWith('_seq')) ? warn : fail;
    return report(`the user lacks privileges on ${denied.join(', ')}`, ownTables);
  }
  if (version === schemaVersion && keyless.length > 0) {
    return fail(`no primary key is on ${keyless.join(', ')}`, 'restore again, into an empty database');
  }
  if (version === schemaVersion) return ok(`${text}, in ${schema}`);
  if (!owns && !read_only) {
    return fail(`${text}, and the user does not own the tables`, 'start this release once as their owner');
  }
  if (!may_create && !read_only) {
    const remedy = `run GRANT CREATE ON SCHEMA ${schema} TO the user`;
    return fail(`${text}, and the user may not create tables`, remedy);
  }
  return version === 0
    ? ok(`the first start makes the tables, in ${schema}`)
    : warn(text, `back up: the next start migrates it to ${schemaVersion}`);
}
