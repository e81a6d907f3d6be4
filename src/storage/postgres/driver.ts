import type { Client } from 'pg';
import { DomainError, messageOf } from '../../domain/errors.ts';

/** The optional package `pg`, loaded only for a database. */
export async function loadDriver(): Promise<typeof import('pg')> {
  try {
    return await import('pg');
  } catch (cause) {
    throw new Error('a postgres: database needs the package "pg": run npm install pg', { cause });
  }
}

/** `host:port` of a URL, as the driver reads it. */
export function hostName(driver: typeof Client, connectionString: string): string {
  try {
    const { host, port } = new driver({ connectionString });
    return `${host}:${port}`;
  } catch (caught) {
    // The driver's messages name the part of the URL, and not the URL, which may hold a password.
    throw new DomainError('invalid', `the database URL cannot be used: ${messageOf(caught)}`);
  }
}
