import { invalid } from '../domain/errors.ts';
import type { Store } from '../domain/repository.ts';
import type { MemoryStoreOptions } from './memory/store.ts';
import { postgresPattern, unmetPostgresRequirement } from './postgres/hosts.ts';
import type { PostgresStoreOptions } from './postgres/store.ts';
import type { SqliteStoreOptions } from './sqlite/store.ts';
import type { StoreTools } from './tools.ts';

/** The options of all stores. Each store checks all of them, and ignores those of the others. */
export type StoreOptions = MemoryStoreOptions & SqliteStoreOptions & PostgresStoreOptions;

/** A kind of store, selected by the scheme of its URL. */
export interface StoreScheme {
  /** The form of its URLs, for help and messages. */
  readonly form: string;
  readonly pattern: RegExp;
  /** What a URL that matches the pattern must also be; `undefined` if the URL is valid. */
  readonly unmetRequirement?: (url: string) => string | undefined;
  readonly hasStandbys?: true;
  /** Loads the modules of this store only, and opens it. */
  readonly open: (url: string, options: StoreOptions) => Promise<Store>;
  /** What commands do with its data, which processes may share; absent if the data ends with its process. */
  readonly persistent?: StoreTools;
}

/** All kinds of stores. Help, configuration and commands use this list. */
export const storeSchemes: readonly StoreScheme[] = [
  {
    form: 'memory:',
    pattern: /^memory:$/,
    open: async (_, options) => (await import('./memory/store.ts')).createMemoryStore(options),
  },
  {
    form: 'sqlite:PATH',
    // Excludes an authority, and `:memory:`, for which SQLite would give each connection a separate database.
    pattern: /^sqlite:(?!:memory:$|\/\/(?!\/))./s,
    unmetRequirement(url) {
      if (/\p{Cc}/u.test(url)) return 'a path without control characters, such as a line break';
      return url.startsWith('sqlite:~')
        ? 'a path without ~, which only a shell replaces by your home folder'
        : undefined;
    },
    open: async (url, options) =>
      (await import('./sqlite/store.ts')).openSqliteStore(sqlitePath(url), options),
    persistent: {
      examine: async (url, options) =>
        (await import('./sqlite/examine.ts')).examineSqlite(sqlitePath(url), options?.processes),
      examineSharing: async (...args) => (await import('./sqlite/examine.ts')).examineVersion(...args),
      scratch: async (url) => (await import('./sqlite/tools.ts')).openSqliteScratch(sqlitePath(url)),
      backUp: async (url, ...args) =>
        (await import('./sqlite/tools.ts')).backupSqlite(sqlitePath(url), ...args),
    },
  },
  {
    form: 'postgres://USER@HOST/NAME',
    pattern: postgresPattern,
    unmetRequirement: unmetPostgresRequirement,
    hasStandbys: true,
    open: async (url, options) => (await import('./postgres/store.ts')).openPostgresStore(url, options),
    persistent: {
      examine: async (...args) => (await import('./postgres/examine.ts')).examinePostgres(...args),
      scratch: async (url) => (await import('./postgres/tools.ts')).openPostgresScratch(url),
    },
  },
];

const formsOf = (schemes: readonly StoreScheme[]) => schemes.map(({ form }) => form).join(' or ');
export const urlForms = formsOf(storeSchemes);
/** The forms of the URLs of stores whose data outlives the process. */
export const persistentUrlForms = formsOf(storeSchemes.filter(({ persistent }) => persistent));

/** What the URL of a store must be; `undefined` if it is valid. */
export function unmetUrlRequirement(url: string): string | undefined {
  const scheme = schemeOf(url);
  return scheme === undefined ? urlForms : scheme.unmetRequirement?.(url);
}

/** What the URL of standbys must be; `undefined` if it is valid. */
export function unmetStandbysRequirement(url: string): string | undefined {
  return schemeOf(url)?.hasStandbys && unmetUrlRequirement(url) === undefined
    ? undefined
    : 'a URL as postgres://USER@HOST,HOST/NAME';
}

export function schemeOf(url: string): StoreScheme | undefined {
  return storeSchemes.find(({ pattern }) => pattern.test(url));
}

/**
 * Opens the store at `memory:`, at `sqlite:PATH`, where PATH is relative, or absolute as in `sqlite:/var/lib/users.db`
 * and `sqlite:///var/lib/users.db`, or at `postgres://USER@HOST/NAME`. Fails as `invalid` for another URL, and as
 * `unavailable` if the store cannot be opened.
 */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const scheme = schemeOf(url);
  const requirement = unmetUrlRequirement(url);
  // The message contains no part of the URL, because its password may be in the wrong place.
  if (scheme === undefined || requirement !== undefined)
    throw invalid('the database URL', `must be ${requirement}`);
  const { readDatabase } = options;
  const unmet = readDatabase !== undefined && (!scheme.hasStandbys || unmetStandbysRequirement(readDatabase));
  if (unmet) throw invalid('readDatabase', 'must be standbys of a postgres: database');
  return await scheme.open(url, options);
}

/** The path of a `sqlite:` URL, unchanged: neither percent-decoded nor cut at a question mark. */
export function sqlitePath(url: string): string {
  return url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '');
}
