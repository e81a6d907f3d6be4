import { sqlitePath } from '../storage/open.ts';
import { backupSqlite } from '../storage/sqlite/backup.ts';
import type { CommandContext } from './command.ts';
import { databaseUrl, misuse, parseOptions, runCommand, UsageError } from './options.ts';
import { createProgress, type Progress } from './progress.ts';

const help = `usage: users-service backup FILE [--database URL]

Copies a SQLite store into a new file, as it is at one moment, while the service may go on writing.

  FILE            the copy, which must not be there yet
  --database URL  the store: sqlite:PATH [sqlite:./data/users.db]
                  (DATABASE_URL in the environment)
`;

/**
 * Copies a live SQLite store into a new file, as it is at one moment: `backup FILE [--database URL]`.
 * The service may go on writing meanwhile.
 */
export function backup(context: CommandContext): Promise<number> {
  return runCommand(context, help, async () => {
    const options = parseOptions(context.args, ['database']);
    const [file, ...others] = options.positionals;
    if (file === undefined || others.length > 0) {
      throw misuse(help);
    }
    const source = sqlitePath(databaseUrl(options, context.env));
    if (source === undefined) {
      throw new UsageError(
        '--database must be sqlite:PATH; PostgreSQL has pg_dump and base backups of its own',
      );
    }
    await backupFile(context, source, file);
  });
}

async function backupFile({ stdout, stderr }: CommandContext, source: string, file: string): Promise<void> {
  let progress: Progress | undefined;
  await backupSqlite(source, file, (done, total) => {
    progress ??= createProgress(stderr, 'backup', total);
    progress.update(done);
  });
  progress?.finish();
  stdout.write(`backed up ${source} to ${file}\n`);
}
